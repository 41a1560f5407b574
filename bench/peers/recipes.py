"""How each peer is had: the newest release that a package registry has, built with its release settings.

Sources are built as they are, and are not read. Rust crates that wrap an allocator carry its sources.
"""

import re
from pathlib import Path

from bench.peers.recipe import Product, Recipe
from bench.peers.workshop import JOBS, MACHINE, Crate, Package, UnavailableError, Workshop

_MIMALLOC_FLAGS = (
    "-O3 -DNDEBUG -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT -fPIC -shared "
    "-fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc -pthread"
)


def _mimalloc(work: Workshop, line: str) -> Product:
    """The crate has the release lines 2 and 3 side by side."""
    work.require(cc="gcc")
    crate = work.crate("libmimalloc-sys")
    sources = crate.folder / "c_src" / "mimalloc" / line
    library = work.folder / "libmimalloc.so"
    source = sources / "src" / "static.c"  # its own single source that stands for all
    work.run("cc", *_MIMALLOC_FLAGS.split(), f"-I{sources}/include", source, "-o", library)
    return Product(library, f"{_of_crate(crate)}; {work.compiler('cc')} {_MIMALLOC_FLAGS}")


def _jemalloc(work: Workshop) -> Product:
    work.require(cc="gcc", make="make")
    crate = work.crate("tikv-jemalloc-sys")
    # Crate 0.7.1+5.3.1-0-g81034c… is jemalloc 5.3.1-0-g81034c…, which its configure has to be told.
    version = crate.version.partition("+")[2]
    sources = work.copy(crate.folder / "jemalloc", "jemalloc")
    configure = crate.folder / "configure" / "configure"
    (sources / "configure").write_bytes(configure.read_bytes())
    work.run("sh", "configure", f"--with-version={version}", folder=sources)
    work.run("make", f"--jobs={JOBS}", "build_lib_shared", folder=sources)
    return Product(
        (sources / "lib" / "libjemalloc.so").resolve(),
        f"{_of_crate(crate)}; its own configure and make with their defaults (-O3 -funroll-loops), "
        f"{work.compiler('cc')}",
        version.partition("-")[0],
    )


def _snmalloc(work: Workshop) -> Product:
    work.require(**{"c++": "g++", "cmake": "cmake", "ninja": "ninja-build"})
    crate = work.crate("snmalloc-sys")
    sources = work.copy(crate.folder / "upstream", "snmalloc")
    work.run("cmake", "-S", ".", "-B", "out", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", folder=sources)
    work.run("cmake", "--build", "out", "--target", "snmallocshim", folder=sources)
    return Product(
        sources / "out" / "libsnmallocshim.so",
        f"{_of_crate(crate)}; its own CMake, Release (-O3 -DNDEBUG), target snmallocshim, "
        f"{work.compiler('c++')}",
        crate.version,
    )


def _tcmalloc(work: Workshop) -> Product:
    work.require(**{"c++": "g++"})
    crate = work.crate("libtcmalloc-sys")
    # The crate's build gives its functions names of their own; undefining this gives the standard ones.
    flags = "-DNDEBUG -UTCMALLOC_INTERNAL_METHODS_ONLY"
    work.run(
        *("cargo", "build", "--release", f"--jobs={JOBS}"),
        folder=crate.project,
        variables={"CXXFLAGS": flags},
    )
    (archive,) = crate.project.glob("target/release/build/libtcmalloc-sys-*/out/libtcmalloc.a")
    library = work.folder / "libtcmalloc.so"
    whole = ("-Wl,--whole-archive", archive, "-Wl,--no-whole-archive")
    work.run("c++", "-shared", *whole, "-Wl,--gc-sections", "-pthread", "-o", library)
    return Product(
        library,
        f"{_of_crate(crate)}; its own build through cargo, release (-O3), with {flags}, "
        f"linked into a shared library, {work.compiler('c++')}",
        _date_of_release(crate),
        # glibc takes the kernel's one registration for restartable sequences, which the per-CPU caches need.
        {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"},
        "MallocExtension_Internal_GetPerCpuCachesActive",
    )


def _gperftools(work: Workshop) -> Product:
    package = work.package("libtcmalloc-minimal4")
    return Product(_file_of(package, "libtcmalloc_minimal.so.4"), _of_package(package))


def _scudo(work: Workshop) -> Product:
    work.require_debian()
    known = work.run("apt-cache", "pkgnames", "libclang-rt-").split()
    releases = [int(match[1]) for name in known if (match := re.fullmatch(r"libclang-rt-(\d+)-dev", name))]
    if not releases:
        raise UnavailableError("apt knows no package libclang-rt-<N>-dev (apt-get update?)")
    package = work.package(f"libclang-rt-{max(releases)}-dev")
    library = _file_of(package, f"libclang_rt.scudo_standalone-{MACHINE}.so")
    return Product(library, _of_package(package), package.upstream_version())


def _rpmalloc(work: Workshop) -> Product:
    crate = work.crate("rpmalloc-sys")
    carried = (
        (crate.folder / "rpmalloc" / "CHANGELOG").read_text(encoding="utf-8", errors="replace").split()[0]
    )
    raise UnavailableError(
        "no package registry has a current release: "
        f"the newest, {_of_crate(crate)}, carries rpmalloc {carried}",
        lasting=True,
    )


def _of_crate(crate: Crate) -> str:
    return f"crate {crate.name} {crate.version.partition('+')[0]} (commit {crate.commit()})"


def _of_package(package: Package) -> str:
    return f"Debian package {package.name} {package.version}, as it is"


def _file_of(package: Package, name: str) -> Path:
    for path in package.folder.rglob(name):
        return path.resolve()
    raise UnavailableError(f"the package {package.name} {package.version} has no file {name}")


def _date_of_release(crate: Crate) -> str:
    """For a project without version numbers."""
    changes = (crate.folder / "CHANGELOG.md").read_text(encoding="utf-8", errors="replace")
    dated = re.search(rf"^## \[{re.escape(crate.version)}\].* (\d{{4}}-\d\d-\d\d)$", changes, re.MULTILINE)
    return dated[1] if dated else f"of crate {crate.version}"


# The slowest first: they are built in this order, several at a time.
RECIPES = (
    Recipe("tcmalloc", "tcmalloc (Google)", _tcmalloc),
    Recipe("jemalloc", "jemalloc", _jemalloc),
    Recipe("snmalloc", "snmalloc", _snmalloc),
    Recipe("mimalloc3", "mimalloc", lambda work: _mimalloc(work, "v3")),
    Recipe("mimalloc2", "mimalloc", lambda work: _mimalloc(work, "v2")),
    Recipe("scudo", "scudo", _scudo),
    Recipe("gperftools", "gperftools tcmalloc", _gperftools),
    Recipe("rpmalloc", "rpmalloc", _rpmalloc),
)
