"""The functions of the environment in which the API server compiles selectors of devices.

One line says one overload: name, id, and what it takes and gives; a dot before the name marks
those that are called on their first argument. Single capital letters are type parameters. The
ids are those of cel-go and Kubernetes: costs are declared by id.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from scheduler.cel import types
from scheduler.cel.types import Type

_TYPES: dict[str, Type] = {
    "any": types.ANY,
    "authorizer": types.AUTHORIZER,
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "cidr": types.CIDR,
    "decision": types.DECISION,
    "double": types.DOUBLE,
    "duration": types.DURATION,
    "dyn": types.DYN,
    "group_check": types.GROUP_CHECK,
    "int": types.INT,
    "ip": types.IP,
    "named_format": types.NAMED_FORMAT,
    "null": types.NULL,
    "path_check": types.PATH_CHECK,
    "quantity": types.QUANTITY,
    "resource_check": types.RESOURCE_CHECK,
    "semver": types.SEMVER,
    "string": types.STRING,
    "timestamp": types.TIMESTAMP,
    "uint": types.UINT,
    "url": types.URL,
}

_NUMERIC = ("int64", "uint64", "double")
_NUMERIC_TYPES = {"int64": "int", "uint64": "uint", "double": "double"}
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_EXT_COMPARABLE = {
    "int": "int", "uint": "uint", "double": "double", "bool": "bool",
    "duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp",
    "string": "string", "bytes": "bytes",
}  # fmt: skip

_STANDARD = """
_?_:_ conditional (bool, A, A) A
_&&_ logical_and (bool, bool) bool
_||_ logical_or (bool, bool) bool
!_ logical_not (bool) bool
@not_strictly_false not_strictly_false (bool) bool
_==_ equals (A, A) bool
_!=_ not_equals (A, A) bool
_+_ add_bytes (bytes, bytes) bytes
_+_ add_double (double, double) double
_+_ add_duration_duration (duration, duration) duration
_+_ add_duration_timestamp (duration, timestamp) timestamp
_+_ add_timestamp_duration (timestamp, duration) timestamp
_+_ add_int64 (int, int) int
_+_ add_list (list(A), list(A)) list(A)
_+_ add_string (string, string) string
_+_ add_uint64 (uint, uint) uint
_/_ divide_double (double, double) double
_/_ divide_int64 (int, int) int
_/_ divide_uint64 (uint, uint) uint
_%_ modulo_int64 (int, int) int
_%_ modulo_uint64 (uint, uint) uint
_*_ multiply_double (double, double) double
_*_ multiply_int64 (int, int) int
_*_ multiply_uint64 (uint, uint) uint
-_ negate_double (double) double
-_ negate_int64 (int) int
_-_ subtract_double (double, double) double
_-_ subtract_duration_duration (duration, duration) duration
_-_ subtract_int64 (int, int) int
_-_ subtract_timestamp_duration (timestamp, duration) timestamp
_-_ subtract_timestamp_timestamp (timestamp, timestamp) duration
_-_ subtract_uint64 (uint, uint) uint
_[_] index_list (list(A), int) A
_[_] index_map (map(A, B), A) B
_[_] optional_list_index_int (optional(list(V)), int) optional(V)
_[_] optional_map_index_value (optional(map(K, V)), K) optional(V)
@in in_list (A, list(A)) bool
@in in_map (A, map(A, B)) bool
size size_bytes (bytes) int
.size bytes_size (bytes) int
size size_list (list(A)) int
.size list_size (list(A)) int
size size_map (map(A, B)) int
.size map_size (map(A, B)) int
size size_string (string) int
.size string_size (string) int
type type (A) type(A)
bool bool_to_bool (bool) bool
bool string_to_bool (string) bool
bytes bytes_to_bytes (bytes) bytes
bytes string_to_bytes (string) bytes
double double_to_double (double) double
double int64_to_double (int) double
double string_to_double (string) double
double uint64_to_double (uint) double
duration duration_to_duration (duration) duration
duration int64_to_duration (int) duration
duration string_to_duration (string) duration
dyn to_dyn (A) dyn
int int64_to_int64 (int) int
int double_to_int64 (double) int
int duration_to_int64 (duration) int
int string_to_int64 (string) int
int timestamp_to_int64 (timestamp) int
int uint64_to_int64 (uint) int
string string_to_string (string) string
string bool_to_string (bool) string
string bytes_to_string (bytes) string
string double_to_string (double) string
string duration_to_string (duration) string
string int64_to_string (int) string
string timestamp_to_string (timestamp) string
string uint64_to_string (uint) string
string ip_to_string (ip) string
string cidr_to_string (cidr) string
timestamp timestamp_to_timestamp (timestamp) timestamp
timestamp int64_to_timestamp (int) timestamp
timestamp string_to_timestamp (string) timestamp
uint uint64_to_uint64 (uint) uint
uint double_to_uint64 (double) uint
uint int64_to_uint64 (int) uint
uint string_to_uint64 (string) uint
.contains contains_string (string, string) bool
.endsWith ends_with_string (string, string) bool
.startsWith starts_with_string (string, string) bool
matches matches (string, string) bool
.matches matches_string (string, string) bool
.getHours duration_to_hours (duration) int
.getMinutes duration_to_minutes (duration) int
.getSeconds duration_to_seconds (duration) int
.getMilliseconds duration_to_milliseconds (duration) int
"""

_LIBRARIES = """
optional.of optional_of (V) optional(V)
optional.ofNonZeroValue optional_ofNonZeroValue (V) optional(V)
optional.none optional_none () optional(V)
.value optional_value (optional(V)) V
.hasValue optional_hasValue (optional(V)) bool
.or optional_or_optional (optional(V), optional(V)) optional(V)
.orValue optional_orValue_value (optional(V), V) V
_?._ select_optional_field (dyn, string) optional(V)
_[?_] list_optindex_optional_int (list(V), int) optional(V)
_[?_] optional_list_optindex_optional_int (optional(list(V)), int) optional(V)
_[?_] map_optindex_optional_value (map(K, V), K) optional(V)
_[?_] optional_map_optindex_optional_value (optional(map(K, V)), K) optional(V)
.last list_last (list(V)) optional(V)
.first list_first (list(V)) optional(V)
optional.unwrap optional_unwrap (list(optional(V))) list(V)
.unwrapOpt optional_unwrapOpt (list(optional(V))) list(V)
cel.@mapInsert @mapInsert_map_key_value (map(K, V), K, V) map(K, V)
cel.@mapInsert @mapInsert_map_map (map(K, V), map(K, V)) map(K, V)
.charAt string_char_at_int (string, int) string
.indexOf string_index_of_string (string, string) int
.indexOf string_index_of_string_int (string, string, int) int
.indexOf list_a_index_of_int (list(A), A) int
.lastIndexOf string_last_index_of_string (string, string) int
.lastIndexOf string_last_index_of_string_int (string, string, int) int
.lastIndexOf list_a_last_index_of_int (list(A), A) int
.lowerAscii string_lower_ascii (string) string
.upperAscii string_upper_ascii (string) string
.replace string_replace_string_string (string, string, string) string
.replace string_replace_string_string_int (string, string, string, int) string
.split string_split_string (string, string) list(string)
.split string_split_string_int (string, string, int) list(string)
.substring string_substring_int (string, int) string
.substring string_substring_int_int (string, int, int) string
.trim string_trim (string) string
.format string_format (string, list(dyn)) string
strings.quote strings_quote (string) string
.join list_join (list(string)) string
.join list_join_string (list(string), string) string
sets.contains list_sets_contains_list (list(T), list(T)) bool
sets.equivalent list_sets_equivalent_list (list(T), list(T)) bool
sets.intersects list_sets_intersects_list (list(T), list(T)) bool
.slice list_slice (list(T), int, int) list(T)
.flatten list_flatten (list(list(T))) list(T)
.flatten list_flatten_int (list(dyn), int) list(dyn)
lists.range lists_range (int) list(int)
.reverse list_reverse (list(T)) list(T)
.distinct list_distinct (list(T)) list(T)
.find string_find_string (string, string) string
.findAll string_find_all_string (string, string) list(string)
.findAll string_find_all_string_int (string, string, int) list(string)
url string_to_url (string) url
isURL is_url_string (string) bool
.getScheme url_get_scheme (url) string
.getHost url_get_host (url) string
.getHostname url_get_hostname (url) string
.getPort url_get_port (url) string
.getEscapedPath url_get_escaped_path (url) string
.getQuery url_get_query (url) map(string, list(string))
ip string_to_ip (string) ip
isIP is_ip (string) bool
ip.isCanonical ip_is_canonical (string) bool
.family ip_family (ip) int
.isUnspecified ip_is_unspecified (ip) bool
.isLoopback ip_is_loopback (ip) bool
.isLinkLocalMulticast ip_is_link_local_multicast (ip) bool
.isLinkLocalUnicast ip_is_link_local_unicast (ip) bool
.isGlobalUnicast ip_is_global_unicast (ip) bool
cidr string_to_cidr (string) cidr
isCIDR is_cidr (string) bool
.containsIP cidr_contains_ip_string (cidr, string) bool
.containsIP cidr_contains_ip_ip (cidr, ip) bool
.containsCIDR cidr_contains_cidr_string (cidr, string) bool
.containsCIDR cidr_contains_cidr (cidr, cidr) bool
.ip cidr_ip (cidr) ip
.prefixLength cidr_prefix_length (cidr) int
.masked cidr_masked (cidr) cidr
quantity string_to_quantity (string) quantity
isQuantity is_quantity_string (string) bool
sign quantity_sign (quantity) int
.isGreaterThan quantity_is_greater_than (quantity, quantity) bool
.isGreaterThan semver_is_greater_than (semver, semver) bool
.isLessThan quantity_is_less_than (quantity, quantity) bool
.isLessThan semver_is_less_than (semver, semver) bool
.compareTo quantity_compare_to (quantity, quantity) int
.compareTo semver_compare_to (semver, semver) int
.asApproximateFloat quantity_get_float (quantity) double
.asInteger quantity_get_int (quantity) int
.isInteger quantity_is_integer (quantity) bool
.add quantity_add (quantity, quantity) quantity
.add quantity_add_int (quantity, int) quantity
.sub quantity_sub (quantity, quantity) quantity
.sub quantity_sub_int (quantity, int) quantity
semver string_to_semver (string) semver
semver string_bool_to_semver (string, bool) semver
isSemver is_semver_string (string) bool
isSemver is_semver_string_bool (string, bool) bool
.major semver_major (semver) int
.minor semver_minor (semver) int
.patch semver_patch (semver) int
.validate format-validate (named_format, string) optional(list(string))
format.named format-named (string) optional(named_format)
.path authorizer_path (authorizer, string) path_check
.group authorizer_group (authorizer, string) group_check
.serviceAccount authorizer_serviceaccount (authorizer, string, string) authorizer
.resource groupcheck_resource (group_check, string) resource_check
.subresource resourcecheck_subresource (resource_check, string) resource_check
.namespace resourcecheck_namespace (resource_check, string) resource_check
.name resourcecheck_name (resource_check, string) resource_check
.check pathcheck_check (path_check, string) decision
.check resourcecheck_check (resource_check, string) decision
.errored decision_errored (decision) bool
.error decision_error (decision) string
.allowed decision_allowed (decision) bool
.reason decision_reason (decision) string
.fieldSelector authorizer_fieldselector (resource_check, string) resource_check
.labelSelector authorizer_labelselector (resource_check, string) resource_check
"""

FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date",
    "datetime",
)  # fmt: skip


class Overload(NamedTuple):
    id: str
    member: bool
    result: Type
    args: tuple[Type, ...]

    @property
    def signature(self) -> tuple[Type, ...]:
        return (self.result, *self.args)


def _ordering() -> str:
    lines: list[str] = []
    for operator, name in (
        ("_<_", "less"),
        ("_<=_", "less_equals"),
        (">", "greater"),
        (">=", "greater_equals"),
    ):
        function = operator if operator.startswith("_") else f"_{operator}_"
        lines += (
            f"{function} {name}_{kind} ({kind}, {kind}) bool"
            for kind in ("bool", "string", "bytes", "timestamp", "duration")
        )
        for a in _NUMERIC:
            for b in _NUMERIC:
                suffix = a if a == b else f"{a}_{b}"
                types_ = f"{_NUMERIC_TYPES[a]}, {_NUMERIC_TYPES[b]}"
                lines.append(f"{function} {name}_{suffix} ({types_}) bool")
    return "\n".join(lines)


def _times() -> str:
    lines = []
    for function, name in (
        ("getFullYear", "year"), ("getMonth", "month"), ("getDayOfYear", "day_of_year"),
        ("getDayOfMonth", "day_of_month"), ("getDate", "day_of_month_1_based"),
        ("getDayOfWeek", "day_of_week"), ("getHours", "hours"), ("getMinutes", "minutes"),
        ("getSeconds", "seconds"), ("getMilliseconds", "milliseconds"),
    ):  # fmt: skip
        lines.append(f".{function} timestamp_to_{name} (timestamp) int")
        lines.append(f".{function} timestamp_to_{name}_with_tz (timestamp, string) int")
    return "\n".join(lines)


def _lists() -> str:
    lines = []
    for kind in _COMPARABLE:
        lines.append(f".isSorted list_{kind}_is_sorted_bool (list({kind})) bool")
        lines.append(f".max list_{kind}_max_{kind} (list({kind})) {kind}")
        lines.append(f".min list_{kind}_min_{kind} (list({kind})) {kind}")
    lines += (
        f".sum list_{kind}_sum_{kind} (list({kind})) {kind}"
        for kind in ("int", "uint", "double", "duration")
    )
    for kind, name in _EXT_COMPARABLE.items():
        lines.append(f".sort list_{name}_sort (list({kind})) list({kind})")
        keys = f"list_{name}_sortByAssociatedKeys (list(T), list({kind})) list(T)"
        lines.append(f".@sortByAssociatedKeys {keys}")
    return "\n".join(lines)


def _formats() -> str:
    return "\n".join(f"format.{name} format.{name} () named_format" for name in FORMATS)


_LINE = re.compile(r"(\.?)(\S+) (\S+) \((.*)\) (.+)")
_PARTS = re.compile(r"[\w@]+|[(),]")


def _read_type(parts: list[str]) -> Type:
    name = parts.pop(0)
    params: list[Type] = []
    if parts and parts[0] == "(":
        parts.pop(0)
        while parts[0] != ")":
            params.append(_read_type(parts))
            if parts[0] == ",":
                parts.pop(0)
        parts.pop(0)
    if name == "list":
        return types.list_of(params[0])
    if name == "map":
        return types.map_of(*params)
    if name == "optional":
        return types.optional_of(params[0])
    if name == "type":
        return types.type_of(params[0])
    return types.parameter(name) if len(name) == 1 else _TYPES[name]


def _read_types(text: str) -> tuple[Type, ...]:
    parts = _PARTS.findall(text)
    found: list[Type] = []
    while parts:
        found.append(_read_type(parts))
        if parts:
            parts.pop(0)
    return tuple(found)


def _table(*texts: str) -> dict[str, tuple[Overload, ...]]:
    table: dict[str, list[Overload]] = {}
    for line in "\n".join(texts).split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        dot, function, name, args, result = match.groups()
        overload = Overload(name, dot == ".", _read_types(result)[0], _read_types(args))
        table.setdefault(function, []).append(overload)
    return {function: tuple(overloads) for function, overloads in table.items()}


FUNCTIONS = _table(_STANDARD, _ordering(), _times(), _lists(), _LIBRARIES, _formats())

TYPE_NAMES: dict[str, Type] = {
    **{t.name: types.type_of(t) for t in (
        types.BOOL, types.BYTES, types.DOUBLE, types.INT, types.NULL, types.STRING, types.UINT,
        types.DURATION, types.TIMESTAMP, types.IP, types.CIDR,
    )},
    "list": types.type_of(types.list_of(types.parameter("A"))),
    "map": types.type_of(types.map_of(types.parameter("A"), types.parameter("B"))),
    "type": types.type_of(types.TYPE),
    "optional_type": types.type_of(types.optional_of(types.DYN)),
}  # fmt: skip
"""Names that are types: `type(x) == int`."""

ATTRIBUTES = types.map_of(types.STRING, types.map_of(types.STRING, types.ANY))
CAPACITY = types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY))

FIELDS: dict[str, Type] = {
    "driver": types.STRING,
    "allowMultipleAllocations": types.BOOL,
    "attributes": ATTRIBUTES,
    "capacity": CAPACITY,
}
"""What a device has."""
