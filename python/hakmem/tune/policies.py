"""Settings worth trying, each a whole that has a name."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.library_facts import facts_of

# What settings are made of.
OPTIONS = (
    "retain_min",
    "retain_percent",
    "retain_grace",
    "decay_ms",
    "background_thread",
    "huge_pages",
    "magazine_bytes",
)
_PROFILE = "HAKMEM_PROFILE"
PADDING = "PADDING_"  # no name that the library looks at
_ROOM = 1024  # bytes for all settings of a policy and what fills them up


@dataclass(frozen=True)
class Policy:
    name: str
    what: str
    variables: Mapping[str, str] = field(hash=False)  # of the environment; the others stay as they are


REFERENCE = Policy("as it is", "the settings in force", {})

POLICIES = (
    Policy("speed", "keep much, for long", {_PROFILE: "speed"}),
    Policy("memory", "keep little", {_PROFILE: "memory"}),
    Policy("keep-16M", "16 MiB of free memory stay", {"HAKMEM_RETAIN_MIN": "16M"}),
    Policy("keep-64M", "64 MiB of free memory stay", {"HAKMEM_RETAIN_MIN": "64M"}),
    Policy("keep-half", "half as much as is in use stays", {"HAKMEM_RETAIN_PERCENT": "50"}),
    Policy("no-grace", "what was given back too early teaches nothing", {"HAKMEM_RETAIN_GRACE": "0"}),
    Policy("long-grace", "it may teach to keep a GiB", {"HAKMEM_RETAIN_GRACE": "1G"}),
    Policy("slow-decay", "what is idle goes after 5 s", {"HAKMEM_DECAY_MS": "5000"}),
    Policy("small-pages", "no huge pages", {"HAKMEM_HUGE_PAGES": "0"}),
    Policy("no-thread", "no thread of the library's own", {"HAKMEM_BACKGROUND_THREAD": "0"}),
    Policy("small-caches", "128 KiB in each magazine", {"HAKMEM_MAGAZINE_BYTES": "128K"}),
    Policy("large-caches", "1 MiB in each magazine", {"HAKMEM_MAGAZINE_BYTES": "1M"}),
)


def together(name: str, policies: Sequence[Policy]) -> Policy:
    """All of them at once; where two set the same variable, the first's counts."""
    variables: dict[str, str] = {}
    for policy in reversed(policies):
        variables |= policy.variables
    return Policy(name, " + ".join(policy.name for policy in policies), variables)


def policy_of(text: str) -> Policy:
    """What a user writes: HAKMEM_RETAIN_MIN=8M,HAKMEM_DECAY_MS=100."""
    variables = {}
    for entry in text.split(","):
        name, sign, value = (part.strip() for part in entry.partition("="))
        if not sign or name not in _variables():
            raise HakmemError(
                f"'{entry}' is no setting to try: write NAME=VALUE, where NAME is one of "
                f"{', '.join(_variables())}"
            )
        variables[name] = value
    return Policy(text, "yours", variables)


def settings_of(policy: Policy, library: Path) -> dict[str, str]:
    """The value of each of the OPTIONS under a policy, by variable, as `library` has it here."""
    facts = facts_of(library, {**os.environ, **policy.variables})
    # The library says in a line what it does not take, and goes on without.
    if facts.said:
        said = facts.said.strip().removeprefix("hakmem: ")
        raise HakmemError(f"the settings '{policy.name}' cannot be tried: {said}")
    return {option.environment: option.value for option in facts.options if option.name in OPTIONS}


def environment_of(policy: Policy) -> dict[str, str]:
    """What the user and the policy set, padded: that of any policy has as many variables, and as many bytes.

    A program's stack begins below its environment, and where it begins changes how fast it runs. Nothing else
    is set, because the environment goes before what the program itself says: its `hakmem_conf`, for one.
    """
    users = {name: os.environ[name] for name in _variables() if name in os.environ}
    settings = {**users, **policy.variables}
    padding = {f"{PADDING}{number}": "" for number in range(len(_variables()) - len(settings) + 1)}
    used = sum(len(os.fsencode(name + value)) for name, value in {**settings, **padding}.items())
    padding[f"{PADDING}0"] = "." * (_ROOM - used)
    return {**settings, **padding}


def _variables() -> list[str]:
    return [_PROFILE, *(f"HAKMEM_{name.upper()}" for name in OPTIONS)]
