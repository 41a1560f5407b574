"""PHP, which loads its extensions with RTLD_DEEPBIND and frees in one library what another allocated."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import Runner, required_program

SCRIPT = Path(__file__).parent / "data" / "workload.php"


@pytest.mark.parametrize("own_allocator", ["1", "0"], ids=["zend", "malloc"])
def test_php_gives_the_same_output(runner: Runner, own_allocator: str) -> None:
    finished = runner.same_output([required_program("php"), SCRIPT], env={"USE_ZEND_ALLOC": own_allocator})
    assert finished.text.endswith("json pdo tokenizer\n"), finished
