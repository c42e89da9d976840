"""Checks of a plugin class: its hooks are plain methods with the right arguments, and no part of it can change."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, MutableSequence, MutableSet
from functools import cached_property, lru_cache, partial, partialmethod
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType, NoneType
from typing import Final, cast
from weakref import WeakKeyDictionary

from attrs import frozen

from agentrail.errors import BadPlugin
from agentrail.errors.agentrail_error import nearest, suggestion
from agentrail.hooks.declarations import (
    BlockedPaths,
    BroughtCompactor,
    BroughtTools,
    Declaration,
    EventLines,
    IdleHooks,
    LongestScreened,
    UsageLimits,
    WorkTime,
)
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.values.argument_checks import refuse_unknown
from agentrail.values.json import FrozenObject
from agentrail.values.tools import ToolSpec
from agentrail.values.untrusted_values import as_usd, brief, error_text, names_of, number

FROZEN: Final = "decorate the class with `@attrs.frozen`, and keep what it remembers in its state"
_PLAIN: Final = frozenset({NoneType, bool, int, float, str, bytes, object})
_BETTER: Final[tuple[tuple[type, str], ...]] = (
    (bytearray, "bytes"),
    (MutableSequence, "a tuple"),
    (MutableMapping, "a mapping that is frozen, such as a `MappingProxyType`"),
    (MutableSet, "a frozenset"),
    (Iterator, "a tuple of its items"),
    (cached_property, "a property"),
    (type(lru_cache(len)), "a function without a cache, or one of the module"),
)
"""Mutable classes, with what to use instead."""
_A_VALUE: Final = "a value, such as an object of a class with `@attrs.frozen`"
_STORES_GLOBAL: Final = frozenset({dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]})
_STORES: Final = _STORES_GLOBAL | {dis.opmap["STORE_DEREF"], dis.opmap["DELETE_DEREF"]}
_ATTRS_OWN: Final = frozenset(vars(frozen(type("Frozen", (), {})))[name] for name in ("__setattr__", "__delattr__"))
_OBJECTS: Final = frozenset({object.__setattr__, object.__delattr__})


@frozen
class _PluginMember:
    """A value found in a plugin, with words that say where."""

    value: object
    where: str
    option: bool = False
    """Whether the value belongs to an option, which must be immutable; elsewhere only containers are refused."""


def why_changeable(member: object, *, option: bool = False) -> str | None:
    """Return which part of *member* is mutable, with what to use instead; `None` if no part is.

    An *option* must be an immutable value as a whole.
    """
    waiting = [_PluginMember(member, "is a {}", option)]
    visited: set[int] = set()
    while waiting:
        part = waiting.pop()
        kind = type(part.value)
        if kind in _PLAIN or id(part.value) in visited or isinstance(part.value, FrozenObject):
            continue
        visited.add(id(part.value))
        for mutable, better in _BETTER:
            if isinstance(part.value, mutable):
                return f"{part.where.format(f'`{kind.__name__}`')}, which can change; use {better}"
        outside = next(_set_outside(part.value), None)
        if outside is not None:
            return f"sets `{outside}`, a variable outside of it; {FROZEN}"
        parts = _parts(part)
        if parts is None:
            return f"{part.where.format(f'`{kind.__name__}`')}, which can change; use {_A_VALUE}"
        waiting += parts
    return None


def _parts(part: _PluginMember) -> list[_PluginMember] | None:
    """Return the parts of *part* to check next; `None` if *part* is of an option and no immutable value."""
    value = part.value
    inner = "has a {}" if part.where == "is a {}" else part.where
    match value:
        case tuple() | frozenset():
            items = list(cast("tuple[object, ...]", value))
        case MappingProxyType():
            table = cast("Mapping[object, object]", value)
            items = [*table, *table.values()]
        case FunctionType() | partial() | partialmethod() | staticmethod() | classmethod() | property():
            return _parts_of_callable(cast("object", value))
        case MethodType():
            return [_PluginMember(value.__func__, inner), _PluginMember(value.__self__, inner, part.option)]
        case BuiltinFunctionType():
            items = [value.__self__]
        case _ if not part.option or isinstance(value, type | ModuleType):
            return []
        case _:
            fields = _fields(value)
            if fields is None:
                return [] if _is_compared(value) else None
            if any(can_set(value, name, item) for name, item in fields.items()):
                return None
            items = list(fields.values())
    return [_PluginMember(item, inner, part.option) for item in items]


def _parts_of_callable(function: object) -> list[_PluginMember]:
    """Return the values that a function (or a wrapper of one) keeps: defaults, closure, attributes."""
    match function:
        case FunctionType():
            values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
            parts = [_PluginMember(value, "has a {} as a default") for value in values]
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                try:
                    parts.append(_PluginMember(cell.cell_contents, f"has a {{}} in `{name}`, a variable outside of it"))
                except ValueError:  # the cell is still empty
                    continue
            return parts
        case property():
            return [_PluginMember(value, "is a {}") for value in (function.fget, function.fset, function.fdel)]
        case partial() | partialmethod():
            partial_function = cast("partial[object]", function)
            values = [*partial_function.args, *partial_function.keywords.values()]
            return [
                _PluginMember(partial_function.func, "is a {}"),
                *(_PluginMember(value, "is given a {}") for value in values),
            ]
        case _:
            return [_PluginMember(cast("staticmethod[..., object]", function).__func__, "is a {}")]


def _fields(value: object) -> Mapping[str, object] | None:
    """Return the fields of an attrs class or dataclass, or of an object of one; `None` for any other object."""
    names = names_of(type(value))
    if names is None:
        return None
    return {name: getattr(value, name) for name in (*names, *getattr(value, "__dict__", ()))}


def _is_compared(value: object) -> bool:
    """Whether the class of *value* defines a hash of its own, which is taken as a promise to be immutable."""
    if type(value).__hash__ is object.__hash__:
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _set_outside(function: object) -> Iterator[str]:
    """Yield the names of global and nonlocal variables that *function* assigns."""
    if not isinstance(function, FunctionType):
        return
    free = function.__code__.co_freevars
    # Without free variables, those that are set are its own; to disassemble it would take most of the check of a plugin
    stores = _STORES if free else _STORES_GLOBAL
    waiting = [function.__code__]
    while waiting:
        code = waiting.pop()
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        if stores.isdisjoint(code.co_code[::2]):
            continue
        for instruction in dis.get_instructions(code):
            if instruction.opcode in _STORES and (instruction.opname.endswith("GLOBAL") or instruction.argval in free):
                yield str(instruction.argval)


def is_own_setter(owner: type, name: str, member: object) -> bool:
    """Whether *owner* has its own `__setattr__`, not one made by attrs or dataclasses."""
    if name not in ("__setattr__", "__delattr__") or member in _OBJECTS or member in _ATTRS_OWN:
        return False
    members = vars(owner)
    frozen_data = getattr(members.get("__dataclass_params__"), "frozen", False)
    return not (members.get("__attrs_own_setattr__") or frozen_data)


def can_set(owner: object, name: str, value: object) -> bool:
    """Whether attribute *name* of *owner* can be assigned; tried with its present *value*, so nothing changes."""
    try:
        setattr(owner, name, value)
    except Exception:  # noqa: BLE001 - each kind of frozen class raises another error
        return False
    return True


HOOK_LIKE: Final = ("before_", "after_", "on_", "session_")
_HOOK: Final = ("hook", "state", "ctx")
OTHERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "init": ("ctx",),
        "on_options": ("new", "state"),
        "upgrade": ("old",),
        "inherited": ("state", "ctx"),
        "in_sandbox": ("hidden", "tools"),
        "on_event": ("event", "state", "ctx"),
        "screen": ("text",),
        "describe": (),
    }
)
"""The arguments of each method of a plugin that is not a hook."""
PAIR: Final = 2
"""Length of a pair of a model's name and its options."""
MAX_SAID: Final = 2**31
"""The largest absolute value of a priority, a version or a length."""
MAX_SCREENED: Final = 200
"""How many characters after the end of a piece are screened with it before it is told, unless a plugin says more."""


def is_small(value: object) -> bool:
    """Whether *value* is a whole number of at most `MAX_SAID`, above or below 0."""
    plain = number(value)
    return type(plain) is int and abs(plain) <= MAX_SAID


def _is_length(value: object) -> bool:
    return is_small(value) and cast("int", value) >= 1


def _are_names(value: object) -> bool:
    return type(value) in (tuple, list, set, frozenset) and all(
        isinstance(name, str) for name in cast("Collection[object]", value)
    )


def _are_models(value: object) -> bool:
    return type(value) in (tuple, list, set, frozenset) and all(map(_is_model, cast("Collection[object]", value)))


def _is_model(value: object) -> bool:
    """Whether *value* is a model's name, or a pair of name and options."""
    if type(value) is not tuple:
        return isinstance(value, str)
    pair = cast("tuple[object, ...]", value)
    name, options = pair if len(pair) == PAIR else (None, None)
    return isinstance(name, str) and isinstance(options, Mapping)


def _are_declarations(value: object) -> bool:
    """Whether *value* is a list of known declarations, at most one of each class."""
    if type(value) not in (tuple, list):
        return False
    kinds = [type(declaration) for declaration in cast("Collection[object]", value)]
    # Compared one by one, because an unknown class may not be hashable.
    are_known = all(any(kind is cls for cls in DECLARATIONS) for kind in kinds)
    return are_known and len({*kinds}) == len(kinds)


Attribute = tuple[Callable[[object], bool], str]
"""A function that checks the value of an attribute, and a description of the values that it accepts."""


def _is_declared(declaration: Declaration) -> bool:
    """Whether the fields of *declaration* have valid values; msgspec does not look at their types."""
    match declaration:
        case IdleHooks():
            return _are_names(declaration.hooks) and HOOK_NAMES.issuperset(declaration.hooks)
        case LongestScreened():
            return _is_length(declaration.chars)
        case BroughtTools():
            return _are_tools(declaration.tools)
        case BroughtCompactor():
            return _is_compactor(declaration.compactor)
        case BlockedPaths():
            return type(declaration.patterns) is tuple and _are_names(declaration.patterns)
        case UsageLimits():
            return _are_limits(declaration)
        case EventLines():
            return (
                type(declaration.level) is str and is_small(declaration.texts) and type(declaration.only) is frozenset
            )
        case _:
            return True


def _are_tools(value: object) -> bool:
    """Whether *value* is a list of tools with distinct names."""
    if type(value) not in (tuple, list):
        return False
    specs: list[object] = [getattr(tool, "spec", None) for tool in cast("Collection[object]", value)]
    names = {spec.name for spec in specs if isinstance(spec, ToolSpec)}
    return len(names) == len(specs)


def _is_compactor(value: object) -> bool:
    """Whether *value* is an async function."""
    return callable(value) and indirect(value) == ASYNC


def _are_limits(limits: UsageLimits) -> bool:
    """Whether all fields of *limits* have valid values."""
    numbers = (limits.max_tokens, limits.max_turn_tokens, limits.max_seconds, limits.max_turn_seconds)
    plain = [number(limit) for limit in numbers if limit is not None]
    is_money = limits.max_usd is None or as_usd(limits.max_usd) is not None
    is_shared: object = limits.shared
    return is_money and type(is_shared) is bool and all(limit is not None and limit >= 0 for limit in plain)


DECLARATIONS: Final[Mapping[type[Declaration], str]] = MappingProxyType(
    {
        IdleHooks: "a tuple of names of hooks",
        LongestScreened: f"a whole number from 1 to {MAX_SAID:,}",
        BroughtTools: "a tuple of tools with different names, as `@tool` makes them",
        BroughtCompactor: "an `async def` that takes `leaving` and `ask`",
        BlockedPaths: "a tuple of patterns of paths",
        WorkTime: "nothing",
        UsageLimits: "numbers from 0 on, or None",
        EventLines: "a level, a frozenset of names and a number",
    }
)
"""The classes of declarations, each with a description of the values that its fields accept."""

PROPERTIES: Final[Mapping[str, Attribute]] = MappingProxyType(
    {
        "key": (lambda value: isinstance(value, str) and bool(value), "a text"),
        "tools_named": (_are_names, "a tuple of names"),
        "models_named": (_are_models, "a tuple of names, or of pairs of a name and a mapping of options"),
        "declarations": (_are_declarations, "a tuple of declarations, such as `EventLines`, one of each class"),
    }
)
CONSTANTS: Final[Mapping[str, Attribute]] = MappingProxyType(
    {
        "priority": (is_small, "a whole number, such as `Priority.OWN`"),
        "critical": (lambda value: type(value) is bool, "True or False"),
        "version": (is_small, "a whole number"),
    }
)
ATTRIBUTES: Final[Mapping[str, Attribute]] = MappingProxyType({**PROPERTIES, **CONSTANTS})
"""The members of a plugin that are read and never called: constants of the class, properties or fields."""
_PLAIN_KINDS: Final = frozenset({bool, float, int, str, bytes, tuple, list, set, frozenset, dict})
"""Classes of values that are checked in the class; any other value may be a descriptor, or declare a field."""
LIKE: Final = 0.85
"""Similarity (0 to 1) from which a method name counts as a misspelt hook."""
AT_ONCE: Final = "it must answer at once: write a plain `def`, and return `Ask(…)` for what takes time"
ASYNC: Final = "async"
"""What `indirect` returns for an `async def`."""
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_class(cls: type, hooks: frozenset[str], home: str) -> None:
    """Raise `BadPlugin` if a member of *cls* is a misspelt hook, or a hook that cannot be called as specified.

    Classes defined in module *home* (the contract itself) are not checked.
    """
    methods: dict[str, tuple[str, ...]] = {**dict.fromkeys(hooks, _HOOK), **OTHERS}
    visited: set[str] = set()
    for owner in cls.__mro__:
        if owner.__module__ == home:
            visited.update(vars(owner))
        if owner.__module__ in {home, "builtins", "typing"}:
            continue
        annotated = cast("Mapping[str, object]", vars(owner).get("__annotations__", {}))
        for name, member in vars(owner).items():
            if name in methods:
                check_method(cls, name, member, methods[name])
                if name in visited:
                    problem = (
                        f"the `{name}` of its base `{owner.__name__}` is never called: name that base before `Plugin`"
                    )
                    raise BadPlugin(cls.__name__, problem)
            elif name in ATTRIBUTES:
                _check_attribute(cls, name, member)
            elif not name.startswith("_"):
                _check_name(cls, name, member, methods, is_field=name in annotated)


def _check_name(cls: type, name: str, member: object, methods: Mapping[str, object], *, is_field: bool) -> None:
    """Raise `BadPlugin` if *name* is like that of a hook or attribute of plugins, but misspelt."""
    if name.startswith(HOOK_LIKE) and not is_field:
        hooks = sorted(hook for hook in methods if hook.startswith(HOOK_LIKE))
        raise BadPlugin(
            cls.__name__, f"there is no hook `{name}`{suggestion(name, hooks, LIKE)}; the hooks are {', '.join(hooks)}"
        )
    names = (*methods, *PROPERTIES) if callable(member) or isinstance(member, property) else ATTRIBUTES
    near = None if is_field else nearest(name, names, LIKE)
    if near is not None:
        problem = f"it has no `{name}`; if you mean `{near}`, write that, else begin the name with `_`"
        raise BadPlugin(cls.__name__, problem)


def _check_attribute(cls: type, name: str, member: object) -> None:
    """Raise `BadPlugin` if *member*, the attribute *name* of *cls*, is a method or has an invalid value."""
    right = f"put `@property` above `def {name}(self)`" if name in PROPERTIES else f"write `{name} = …` in the class"
    if isinstance(member, staticmethod | classmethod | partialmethod) or callable(member):
        raise BadPlugin(cls.__name__, f"its `{name}` is a method, but is read and never called; {right}")
    kind = indirect(member.fget) if isinstance(member, property) else ""
    if kind:
        raise BadPlugin(cls.__name__, f"its `{name}` is {kind}, but is read and never awaited; {right}")
    if type(member) in _PLAIN_KINDS:
        _check_value(cls.__name__, name, member)


def _check_value(whose: str, name: str, value: object) -> None:
    """Raise `BadPlugin` if the attribute *name* has an invalid value."""
    fits, description = ATTRIBUTES[name]
    if not fits(value):
        raise BadPlugin(whose, f"its `{name}` is {brief(value)}, which is not valid; it must be {description}")
    for declaration in cast("Collection[Declaration]", value) if name == "declarations" else ():
        if not _is_declared(declaration):
            kind = type(declaration)
            problem = f"its `{kind.__name__}` is {brief(declaration)}, which is not valid"
            raise BadPlugin(whose, f"{problem}; it must be of {DECLARATIONS[kind]}")


def check_attributes(plugin: object) -> None:
    """Raise `BadPlugin` if an attribute of *plugin*, such as its priority, cannot be read or is invalid."""
    whose = type(plugin).__name__
    for name in ATTRIBUTES:
        try:
            value: object = getattr(plugin, name)
        except BaseException as error:
            raise BadPlugin(whose, f"its `{name}` raised {error_text(error)}") from error  # noqa: ASYNC104 - no await here
        _check_value(whose, name, value)


_FITTING: Final = WeakKeyDictionary[FunctionType, tuple[str, ...]]()
"""The arguments that functions take, as found: each spawn asks for them again, and to look takes 70 µs a method."""


def check_method(
    cls: type, name: str, member: object, arguments: tuple[str, ...], *, may_be_async: bool = False
) -> None:
    """Raise `BadPlugin` if *member* cannot be the method *name*, which is called with *arguments*."""
    plain_function = member if isinstance(member, FunctionType) else None
    if plain_function is not None and _FITTING.get(plain_function) == arguments:
        return
    bound: tuple[object, ...] = arguments
    kind_name = type(member).__name__
    function: object = member
    if isinstance(member, staticmethod | classmethod):
        function = cast("staticmethod[..., object]", member).__func__
        bound = (cls, *arguments) if isinstance(member, classmethod) else arguments
    elif inspect.isfunction(member):
        bound = (cls, *arguments)
    if isinstance(member, partialmethod):
        partial_method = cast("partialmethod[object]", member)
        function = partial(partial_method.func, None, *partial_method.args, **partial_method.keywords)
        bound = arguments
    if not callable(function):
        kind = "a property" if isinstance(member, property) else f"a `{kind_name}`"
        raise BadPlugin(cls.__name__, f"its `{name}` is {kind}; write `{_def_line(name, arguments)}`")
    kind = indirect(function)
    if kind and not (may_be_async and kind == ASYNC):
        advice = "it must answer by `return`" if may_be_async else AT_ONCE
        raise BadPlugin(cls.__name__, f"its `{name}` is {kind}; {advice}")
    _check_arguments(cls, name, function, bound, arguments)
    if plain_function is not None and not may_be_async:
        _FITTING[plain_function] = arguments


def _check_arguments(
    cls: type, name: str, function: Callable[..., object], bound: tuple[object, ...], arguments: tuple[str, ...]
) -> None:
    """Raise `BadPlugin` if *function* cannot be called with the hook's arguments."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # a function written in C may have no signature
        return
    try:
        signature.bind(*bound)
    except TypeError as error:
        right = _def_line(name, arguments)
        raise BadPlugin(cls.__name__, f"its `{name}` does not take its arguments: {error}; write `{right}`") from error


def _def_line(name: str, arguments: tuple[str, ...]) -> str:
    """Return the correct first line of the method *name*: its `def` with *arguments*."""
    return f"def {name}({', '.join(('self', *arguments))})"


def indirect(function: object) -> str:
    """Return what calling *function* gives instead of a result, such as "async"; empty if it gives a result."""
    while True:
        while isinstance(function, partial):
            function = cast("object", function.func)
        if not isinstance(function, type):
            call: object = getattr(type(function), "__call__", None)  # noqa: B004 - the function that calling it would run
            function = call if inspect.isfunction(call) else function
        if inspect.iscoroutinefunction(function):
            return ASYNC
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            return "a generator"
        wrapped: object = getattr(function, "__wrapped__", None)
        if wrapped is None:
            return ""
        function = wrapped


def check_members(cls: type, home: str) -> None:
    """Raise `BadPlugin` if a member of *cls* is mutable or contains something mutable; all its objects share it.

    Classes defined in module *home* (the contract itself) are not checked.
    """
    for owner in cls.__mro__:
        for name, member in () if owner.__module__ in {home, "builtins", "typing"} else vars(owner).items():
            if is_own_setter(owner, name, member):
                raise BadPlugin(cls.__name__, f"it has a `{name}` of its own; {FROZEN}")
            is_dunder = name.startswith("__") and name.endswith("__")  # a name set by Python, attrs or dataclasses
            problem = None if is_dunder else why_changeable(member)
            if problem:
                raise BadPlugin(cls.__name__, f"its `{name}` {problem}")


def check_frozen(plugin: object, names: frozenset[str]) -> None:
    """Raise `BadPlugin` if an option of *plugin* is mutable, or a hook (one of *names*) is set on the object."""
    cls = type(plugin)
    attributes = cast("Mapping[str, object]", getattr(plugin, "__dict__", {}))
    for name in attributes:
        if name in names or name in OTHERS:
            raise BadPlugin(cls.__name__, f"its `{name}` is set on the object; define it in the class")
    for name in dict.fromkeys((*(names_of(cls) or ()), *attributes)):
        value: object = getattr(plugin, name)
        problem = why_changeable(value, option=True)
        if problem:
            raise BadPlugin(cls.__name__, f"its option `{name}` {problem}")
        if can_set(plugin, name, value):
            raise BadPlugin(cls.__name__, f"its `{name}` can be set; {FROZEN}")


def _init_of(cls: type) -> Callable[..., None]:
    """Return the `__init__` of *cls*, without binding it."""
    return cast("Callable[..., None]", inspect.getattr_static(cls, "__init__"))


class SignatureOfInit:
    """Descriptor that shows the signature of `__init__` as the class's own, because `__new__` takes any arguments."""

    def __get__(self, _: object, cls: type) -> inspect.Signature:
        """Return the signature of the `__init__` of *cls*."""
        init = _init_of(cls)
        if init is object.__init__:
            return inspect.Signature()
        unbound = inspect.signature(init)
        return unbound.replace(parameters=list(unbound.parameters.values())[1:])


def refuse_unknown_options(cls: type, args: tuple[object, ...], options: Mapping[str, object]) -> None:
    """Raise `UnknownField` if *options* holds a name that is not an option of *cls*."""
    if not options and (not args or _init_of(cls) is not object.__init__):
        return
    parameters = inspect.signature(cls).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    refuse_unknown(
        cls.__name__, options, [name for name, parameter in parameters.items() if parameter.kind in _BY_NAME]
    )
    if not parameters:
        raise BadPlugin(cls.__name__, f"it has no options, and was given {len(args)}")
