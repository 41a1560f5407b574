"""What programs and shared libraries are, by their files."""

from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.hash import ELFHashSection, GNUHashSection

from hakmem.errors import HakmemError

_SYMBOL_TABLES = (".gnu.hash", ".hash")  # in which the dynamic linker looks names up


def defines(library: Path, symbol: str) -> bool:
    """Whether it has that name for others."""
    try:
        with library.open("rb") as file:
            elf = ELFFile(file)
            for name in _SYMBOL_TABLES:
                table = elf.get_section_by_name(name)
                if isinstance(table, (GNUHashSection, ELFHashSection)):
                    found = table.get_symbol(symbol)
                    return found is not None and found["st_shndx"] != "SHN_UNDEF"
    except (ELFError, OSError) as error:
        raise HakmemError(f"cannot load '{library}': {error}") from error
    return False


def misfit(program: Path, library: Path) -> str | None:
    """Why the library does not fit the program; nothing for what only the kernel can judge."""
    wanted = _machine_of_library(library)
    try:
        with program.open("rb") as file:
            elf = ELFFile(file)
            machine = elf.get_machine_arch()
            segments = {segment["p_type"] for segment in elf.iter_segments()}
    except (ELFError, OSError):
        return None
    if machine != wanted:
        return f"it is a program for {machine}, the library is for {wanted}"
    if "PT_INTERP" not in segments:
        return "it is statically linked, so there is no dynamic linker to do it; link it with libhakmem.a"
    return None


def _machine_of_library(library: Path) -> str:
    try:
        with library.open("rb") as file:
            return str(ELFFile(file).get_machine_arch())
    except (ELFError, OSError) as error:
        raise HakmemError(f"cannot load '{library}': {error}") from error
