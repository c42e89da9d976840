"""Finds what the code of a plugin reads of a tool call: tool names, arguments, and values that each is compared with.

The bytecode of the hooks that see calls and results is read, in order, and that of the functions that they call;
source code is not always there. What `before_tool` looks up in the arguments is watched while it runs
(`watched_calls`), since code does not tell which objects a key is in.

A constant is taken to belong to the argument that was read last:
`args.get("volume") == "archive"` says that `archive` is a value of `volume` that matters, and `isinstance(size, int)`
that integers matter for `size`. That is a guess. A wrong guess only leads to a test call that the plugin ignores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dis import Instruction, get_instructions
from inspect import unwrap
from itertools import islice
from types import CodeType, FunctionType
from typing import Final, cast

from agentrail.hooks.attachments import implemented
from agentrail.hooks.hook_types import BeforeTool
from agentrail.hooks.plugin import AnyPlugin, Plugin
from agentrail.testing.watched_calls import Watched, WatchedCall, watched_call
from agentrail.values.json import Json, freeze, freeze_object
from agentrail.values.untrusted_values import names_of
from agentrail.values.value import Value

SEE_CALLS: Final = ("before_tool", "after_response", "after_tool", "after_tool_batch", "on_tool_error", "on_event")
"""The hooks that see calls, their arguments or their results, in the order in which their code is read."""

FUNCTIONS: Final = 20
"""How many functions of one plugin are read at most."""

KEYS: Final = 30
"""How many arguments of one plugin are kept at most."""

VALUES: Final = 24
"""How many values of one argument are kept at most."""

COMMON: Final[tuple[Json, ...]] = ("a", 1, True)
"""Values for an argument that the code compares with nothing."""

MAX_LOOKED_UP: Final = 16
"""In how many instructions after a constant an `in` is looked for that has it on its left."""

_ENDS: Final = ("STORE", "RETURN", "POP_JUMP", "JUMP", "COMPARE")
"""How the instructions begin that end the expression in which a constant stands."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,40}")
_LOCAL: Final = re.compile(r"(LOAD|STORE)_FAST")
_CONSTANTS: Final = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
_TOOLS: Final = frozenset({"name", "tool", "tool_name"})
_LONGEST: Final = 2_000
_MAX_ITEMS: Final = 100

_KINDS: Final[Mapping[str, tuple[Json, ...]]] = {
    "int": (1, 0, 2),
    "float": (0.5, 1),
    "str": ("a", ""),
    "bool": (True, False),
    "list": ((), ("a",), ("a", "b")),
}
"""Sample values for each type that code may ask for, as `isinstance(size, int)` does."""

_ALSO: Final = {"tuple": "list", "Sequence": "list", "Iterable": "list", "dict": "Mapping", "Number": "int"}
"""Types in code, and the type in `_KINDS` (or `Mapping`) that stands for each."""


class Key(Value):
    """An argument of tool calls that the code of a plugin reads."""

    name: str
    """The name of the argument."""
    values: tuple[Json, ...] = ()
    """Values that the code compares the argument with, and values near them; empty if there are none."""


class Read(Value):
    """The tools, arguments and values that the code of one plugin reads of a call."""

    tools: tuple[str, ...]
    """Names of tools that stand in the code."""
    keys: tuple[Key, ...]
    """The arguments, in the order in which the code reads them."""
    values: tuple[Json, ...]
    """All values of all arguments."""


class _Argument:
    """What was read about one argument: values, types, and whether the code takes its length."""

    def __init__(self) -> None:
        self.values: list[Json] = []
        self.kinds: list[str] = []
        self.measured = False

    def samples(self) -> Iterator[Json]:
        """Yield sample values: those in the code, numbers next to them, texts and lists by length, one of each type."""
        integers = [number for number in self.values if type(number) is int]
        yield from self.values
        yield from (near for number in integers for near in (number + 1, number - 1))
        if self.measured:
            sizes = sorted({size for number in integers for size in (number + 1, number) if 0 < size <= _LONGEST})
            kinds = self.kinds or ("list", "str")
            yield from (("a",) * size for size in sizes if "list" in kinds and size <= _MAX_ITEMS)
            yield from ("a" * size for size in sizes if "str" in kinds)
        yield from (sample for kind in self.kinds for sample in _KINDS.get(kind, ()))


class _PluginCodeReader:
    """Reads the bytecode of one plugin's functions, and collects its tool names and arguments."""

    def __init__(self, plugin: AnyPlugin) -> None:
        self.plugin = plugin
        self.tools: dict[str, None] = {}
        self.arguments: dict[str, _Argument] = {}
        self.at: str | None = None
        self.fresh = False
        self.seen: set[CodeType] = set()
        self.options = frozenset(names_of(type(plugin)) or ())

    def function(self, function: FunctionType) -> None:
        """Read *function*, if it belongs to the package of the plugin."""
        home, here = type(self.plugin).__module__, function.__module__
        if home.partition(".")[0] == here.partition(".")[0]:
            self.code(function.__code__, function.__globals__)

    def code(self, code: CodeType, names: Mapping[str, object]) -> None:
        """Read *code* and the functions that it calls; *names* maps its global names to values."""
        if code in self.seen or len(self.seen) >= FUNCTIONS:
            return
        self.seen.add(code)
        bound: dict[str, str | None] = {}
        # Functions that were loaded but not called yet: the code of their arguments is read before them
        named: list[FunctionType] = []
        instructions = list(get_instructions(code))
        for index, instruction in enumerate(instructions):
            if instruction.opname in _CONSTANTS:
                self._constant(instructions, index, names, bound)
            elif _LOCAL.match(instruction.opname):
                self._locals(instruction, bound)
            elif instruction.opname == "LOAD_GLOBAL":
                named += self._global(str(instruction.argval), names.get(str(instruction.argval)))
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                named += self._attribute(str(instruction.argval))
            elif instruction.opname.startswith("CALL"):
                self._functions(named)
        self._functions(named)

    def _functions(self, named: list[FunctionType]) -> None:
        """Read each of the functions *named*, and empty the list."""
        while named:
            self.function(named.pop())

    def _constant(
        self, instructions: list[Instruction], index: int, names: Mapping[str, object], bound: Mapping[str, str | None]
    ) -> None:
        constant = cast("object", instructions[index].argval)
        holds = _container(instructions, index)
        about = None if holds is None else bound.get(holds)
        if isinstance(constant, CodeType):
            self.code(constant, names)
        elif isinstance(constant, str) and about is not None and "Mapping" in self.arguments[about].kinds:
            self._in_argument(constant, about)
        elif isinstance(constant, str) and about is not None:
            self.at = about
            self._matters(constant)
        elif isinstance(constant, str) and (container := _inner_container(instructions, index)) is not None:
            self._in_argument(constant, container)
        elif isinstance(constant, str) and (holds is not None or _is_key(instructions, index)):
            if self._is_in_object(instructions, index, bound):
                self._kind("Mapping")
            self._argument(constant)
        elif _next(instructions, index).opname == "MATCH_KEYS":
            for name in cast("tuple[str, ...]", constant):
                self._argument(name)
        else:
            self._matters(constant)

    def _locals(self, instruction: Instruction, bound: dict[str, str | None]) -> None:
        """Track which argument each local variable holds: a load makes it the argument read last."""
        for does, name in zip(_LOCAL.findall(instruction.opname), _local_names(instruction), strict=False):
            if does == "STORE":
                bound.pop(name, None)
                if self.fresh:
                    bound[name] = self.at
                self.fresh = False
            elif name in bound:
                self.at = bound[name]
            elif name in _TOOLS:
                self.at = None

    def _global(self, name: str, value: object) -> Iterator[FunctionType]:
        """Note a global *name* as type, length or value of the argument read last; yield a function."""
        if isinstance(value, type) or name in _KINDS or name in _ALSO:
            self._kind(_ALSO.get(name, name))
        elif name == "len":
            self._measured()
        elif callable(value) and isinstance(inner := unwrap(value), FunctionType):
            yield inner
        elif isinstance(value, str | int | float | tuple | list | frozenset | set | dict):
            self._matters(cast("object", value))

    def _attribute(self, name: str) -> Iterator[FunctionType]:
        """Note an option's values, or that a tool name is read; yield the attribute if it is a method of the plugin."""
        if name in self.options:
            self._matters(getattr(self.plugin, name))
        elif name in _TOOLS:
            self.at, self.fresh = None, True
        elif name == "args":
            self.fresh = False
        elif isinstance(method := _attributes(type(self.plugin)).get(name), FunctionType) and name not in SEE_CALLS:
            yield method

    def _argument(self, name: str) -> None:
        if _NAME.fullmatch(name) and (name in self.arguments or len(self.arguments) < KEYS):
            self.arguments.setdefault(name, _Argument())
            self.at, self.fresh = name, True

    def _is_in_object(self, instructions: list[Instruction], index: int, bound: Mapping[str, str | None]) -> bool:
        """Whether the key at *index* is one of the argument read last: `.get("a")["b"]`, or `a["b"]` of a local `a`."""
        is_method = instructions[index - 1].opname in ("LOAD_ATTR", "LOAD_METHOD")
        owner = instructions[index - (2 if is_method else 1)]
        if owner.opname == "LOAD_FAST":
            return bound.get(str(owner.argval)) is not None
        return self.fresh and (owner.opname.startswith(("CALL", "BINARY_SUBSCR")) or owner.argrepr == "[]")

    def _in_argument(self, word: str, container: str) -> None:
        """Note that *word* is looked up in the argument *container*: a text with it, or an object with such a key."""
        self._argument(word)
        self._argument(container)
        self._matters(word)
        self._kind("Mapping")

    def _kind(self, kind: str) -> None:
        if self.at is not None and kind not in (kinds := self.arguments[self.at].kinds):
            kinds.append(kind)

    def _measured(self) -> None:
        if self.at is not None:
            self.arguments[self.at].measured = True

    def _matters(self, value: object) -> None:
        for plain_value in islice(_plain(value), VALUES):
            if self.at is not None:
                values = self.arguments[self.at].values
                if len(values) < VALUES and not any(
                    type(plain_value) is type(other) and plain_value == other for other in values
                ):
                    values.append(plain_value)
            elif isinstance(plain_value, str) and _NAME.fullmatch(plain_value):
                self.tools.setdefault(plain_value)

    def words(self) -> list[str]:
        """Return the texts that were read, of tools and of arguments."""
        values = (value for about in self.arguments.values() for value in about.values)
        return list(dict.fromkeys((*self.tools, *self.arguments, *(word for word in values if isinstance(word, str)))))

    def read(self, watched: WatchedCall) -> Read | None:
        """Return the result: what was read of calls, in the code and by *watched*; `None` if no argument was.

        An argument that was watched as an object gets objects of the keys that were looked up in it as values. Another
        one that the code takes for a mapping gets objects made of the other arguments.
        """
        arguments = watched.arguments
        inner = {name for about in arguments.values() for name in about.names()} - arguments.keys()
        names = [name for name in (*self.arguments, *arguments) if name not in inner]
        if not names:
            return None
        samples = {name: _once(about.samples()) for name, about in self.arguments.items()}
        objects = self._objects(samples)
        words = self.words()

        def values(name: str, about: Watched) -> tuple[Json, ...]:
            return _once((*about.texts, *samples.get(name, ()))) or _once((*words, *COMMON))

        keys: list[Key] = []
        for name in dict.fromkeys(names):
            about = arguments.get(name) or Watched()
            has_parts = about.is_object or about.is_list
            full_values = about.samples(name, values, words) if has_parts else objects.get(name, ())
            others = _once((*about.texts, *samples.get(name, ())))
            keys.append(Key(name, (*full_values, *others[:VALUES])))
        return Read(
            self._tools(watched), tuple(keys), _once((*COMMON, *(value for key in keys for value in key.values)))
        )

    def _objects(self, samples: Mapping[str, tuple[Json, ...]]) -> dict[str, tuple[Json, ...]]:
        """Return sample objects for each argument that the code takes for a mapping."""
        mappings = [name for name, about in self.arguments.items() if "Mapping" in about.kinds]
        parts = {name: values or COMMON for name, values in samples.items() if name not in mappings}
        several = freeze_object({name: values[0] for name, values in parts.items()})
        single_argument_samples = [freeze_object({name: value}) for name, values in parts.items() for value in values]
        return dict.fromkeys(mappings, _once((several, *single_argument_samples)))

    def _tools(self, watched: WatchedCall) -> tuple[str, ...]:
        """Return the names of tools: what a call's name was compared with, and words that belong to no argument."""
        sees_all = implemented(self.plugin).isdisjoint({*SEE_CALLS} - {BeforeTool.hook_name})
        if sees_all and watched.tool.texts and not watched.tool.is_hashed:
            return tuple(watched.tool.texts)
        others = {*self.arguments, *watched.args.names(), *watched.args.compared()}
        return tuple(dict.fromkeys((*watched.tool.texts, *(name for name in self.tools if name not in others))))


def reads(plugin: AnyPlugin, *, watch: bool = True) -> Read | None:
    """Return what the hooks of *plugin* read of calls: tools, arguments, values; `None` if they read no argument.

    With *watch*, `before_tool` is also called, to see what it reads.
    """
    members = _attributes(type(plugin))
    reader = _PluginCodeReader(plugin)
    for name in SEE_CALLS:
        function = members.get(name)
        if isinstance(function, FunctionType) and function is not getattr(Plugin, name):
            reader.at = None
            reader.function(unwrap(function))
    return reader.read(watched_call(plugin, reader.words()) if watch else WatchedCall())


def _attributes(cls: type) -> Mapping[str, object]:
    """Return the attributes of *cls* with those that it inherits, by name."""
    return {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}


def _is_key(instructions: list[Instruction], index: int) -> bool:
    """Return whether the constant at *index* is the name of an argument: `.get("a")` or `["a"]`."""
    previous, following = instructions[index - 1], _next(instructions, index)
    subscript = following.opname == "BINARY_SUBSCR" or (following.opname == "BINARY_OP" and following.argrepr == "[]")
    # What follows the other arguments in `{**hook.args, "a": 1}`
    is_replaced = (
        index > 0 and previous.opname in ("DICT_UPDATE", "DICT_MERGE") and not _is_own(instructions, index - 2)
    )
    return subscript or is_replaced or (previous.opname in ("LOAD_ATTR", "LOAD_METHOD") and previous.argval == "get")


def _local_names(instruction: Instruction) -> tuple[str, ...]:
    """Return the local variables that *instruction* loads or stores: one, or two at once."""
    names = cast("object", instruction.argval)
    return cast("tuple[str, ...]", names) if isinstance(names, tuple) else (str(names),)


def _is_own(instructions: list[Instruction], index: int) -> bool:
    """Return whether a local variable is loaded at *index* to which a dictionary was assigned that the code writes out.

    Such a dictionary holds no arguments of a call: `{**payload, "to": model}` adds to what an event tells.
    """
    if index < 0 or not instructions[index].opname.startswith("LOAD_FAST"):
        return False
    name = _local_names(instructions[index])[-1]
    for earlier in range(index - 1, 0, -1):
        stores = instructions[earlier]
        if stores.opname.startswith("STORE_FAST") and name == _local_names(stores)[0]:
            return instructions[earlier - 1].opname in ("BUILD_MAP", "BUILD_CONST_KEY_MAP")
    return False


def _container(instructions: list[Instruction], index: int) -> str | None:
    """Return the name on the right of `in` if the constant at *index* stands on its left; else `None`."""
    holds: str | None = None
    for after in instructions[index + 1 : index + 4]:
        if after.opname == "CONTAINS_OP":
            return holds
        if not after.opname.startswith(("LOAD_FAST", "LOAD_ATTR")):
            return None
        holds = str(after.argval)
    return None


def _inner_container(instructions: list[Instruction], index: int) -> str | None:
    """Return the argument in which the constant at *index* is looked up: `"a" in hook.args["b"]`; else `None`."""
    argument: str | None = None
    for other_index in range(index + 1, min(index + MAX_LOOKED_UP, len(instructions))):
        instruction = instructions[other_index]
        if instruction.opname == "CONTAINS_OP":
            return argument
        if instruction.opname.startswith(_ENDS):
            return None
        if (
            instruction.opname in _CONSTANTS
            and isinstance(instruction.argval, str)
            and _is_key(instructions, other_index)
        ):
            argument = instruction.argval
    return None


def _next(instructions: list[Instruction], index: int) -> Instruction:
    """Return the instruction after *index*; the last instruction, a return, if there is none."""
    return instructions[min(index + 1, len(instructions) - 1)]


def _plain(value: object) -> Iterator[Json]:
    """Yield the scalars in *value* and in the containers in it: texts, booleans, and numbers that are not too big."""
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from _plain(key)
            yield from _plain(item)
    elif isinstance(value, tuple | list):
        for item in cast("tuple[object, ...]", value):
            yield from _plain(item)
    elif isinstance(value, set | frozenset):
        yield from sorted((inner for item in cast("set[object]", value) for inner in _plain(item)), key=repr)
    elif (type(value) in (int, float) and abs(cast("float", value)) < _LONGEST**2) or type(value) in (str, bool):
        yield freeze(value)


def _once(samples: Iterable[Json]) -> tuple[Json, ...]:
    """Return the first `VALUES` different *samples*; values of different types, such as 1 and True, are different."""
    distinct: dict[tuple[type, object], Json] = {}
    for sample in samples:
        distinct.setdefault((type(sample), repr(sample)), sample)
    return tuple(islice(distinct.values(), VALUES))
