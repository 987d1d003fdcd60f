"""Functions by area. The recorded cases hold many more; these say what each area is about."""

from __future__ import annotations

import pytest

from scheduler.cel.declarations import FUNCTIONS as DECLARED
from scheduler.cel.library import FUNCTIONS
from tests.cel.devices import outcome

_AREAS: dict[str, list[str]] = {
    "strings": [
        "'tacocat'.charAt(3) == 'o' && 'é'.size() == 1 && '日本'.charAt(1) == '本'",
        "'tacocat'.indexOf('ac') == 1 && 'tacocat'.indexOf('a', 3) == 5",
        "'tacocat'.lastIndexOf('at') == 5 && 'tacocat'.lastIndexOf('a', 3) == 1",
        "'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'tacoCæt'.upperAscii() == 'TACOCæT'",
        "'hello hello'.replace('he', 'we') == 'wello wello'",
        "'hello'.replace('', '_') == '_h_e_l_l_o_' && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'a b'.split(' ') == ['a', 'b'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'a'.split(',', 0) == []",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "' \\u00a0a\\t'.trim() == 'a' && strings.quote('a\"\\n') == '\"a\\\\\"\\\\n\"'",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
    ],
    "format": [
        "'%s %d %s'.format(['a', 1, true]) == 'a 1 true' && '%%'.format([]) == '%'",
        "'%.2f'.format([1.005]) == '1.00' && '%b %o'.format([5, 8]) == '101 10'",
        "'%.1f'.format([-0.0]) == '0.0' && '%.1f'.format([-0.01]) == '-0.0'",
        "!'%e'.format([-0.0]).startsWith('-')",
        "'%x %X %x'.format([255, 255, 'hi']) == 'ff FF 6869'",
        "'%s'.format([[1, dyn('a')].filter(x, true)]) == '[1, \"a\"]'",
        "'%s'.format([{'b': 1, 'a': 2}]) == '{\"a\":2, \"b\":1}'",
    ],
    "conversions": [
        "int('-5') == -5 && int(2.9) == 2 && uint('5') == 5u && double('1.5') == 1.5",
        "string(1.0) == '1' && string(1e10) == '1e+10' && string(b'ab') == 'ab'",
        "bool('True') && !bool('f') && bytes('é').size() == 2",
        "string(duration('90m')) == '5400s' && duration('1h30m').getMinutes() == 90",
    ],
    "times": [
        "timestamp('2023-07-14T10:30:45.123Z').getDayOfWeek() == 5",
        "timestamp('2023-07-14T10:30:45.123Z').getHours('America/New_York') == 6",
        "timestamp('2023-07-14T10:30:45.123Z').getMinutes('+05:45') == 15",
        "timestamp('2024-03-01T00:00:00Z').getDayOfYear() == 60",
        "timestamp('2020-01-01T00:00:00Z') + duration('24h') == timestamp('2020-01-02T00:00:00Z')",
        "string(timestamp('2020-01-01T00:00:00.5+01:00')) == '2020-01-01T00:00:00.5+01:00'",
        "timestamp(0).getFullYear() == 1970 && int(timestamp('1970-01-01T00:01:00Z')) == 60",
    ],
    "lists": [
        "[1, 2, 3].slice(1, 3) == [2, 3] && [[1], [2]].flatten() == [1, 2]",
        "[dyn([1]), dyn([dyn([2])])].flatten(2) == [1, 2]",
        "lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1]",
        "[2, 1, 2].distinct() == [2, 1] && ['b', 'a'].sort() == ['a', 'b']",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "[1, 2].sum() == 3 && [1.5, 2.5].sum() == 4.0 && [].sum() == 0",
        "[3, 1].min() == 1 && ['a', 'b'].max() == 'b' && [1, 1, 2].isSorted()",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(9) == -1",
        "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2])",
        "sets.equivalent([1, 2], [2, 1, 1]) && !sets.contains([1], [2])",
    ],
    "regular expressions": [
        "'abc123'.find('[0-9]+') == '123' && 'abc'.find('x') == ''",
        "'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1b2'.findAll('[0-9]', 1) == ['1']",
        "matches('abc', '^a') && 'ABC'.matches('(?i)abc') && !'a'.matches('^b$')",
    ],
    "URLs": [
        "url('https://u:p@example.com:80/a%20b?x=1&x=2#f').getHost() == 'example.com:80'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('/p').getEscapedPath() == '/p'",
        "url('https://h/?k=a&k=b').getQuery() == {'k': ['a', 'b']}",
        "isURL('https://a/') && !isURL('a b') && url('https://h:8/').getPort() == '8'",
    ],
    "addresses": [
        "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && !isIP('10.0.0.300')",
        "ip.isCanonical('::1') && !ip.isCanonical('::0001') && !isIP('::ffff:1.2.3.4')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.1.2.3/8').masked() == "
        "cidr('10.0.0.0/8')",
        "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16')) && cidr('::/0').prefixLength() == 0",
        "string(cidr('10.0.0.0/8')) == '10.0.0.0/8' && cidr('10.0.0.0/8').ip() == ip('10.0.0.0')",
    ],
    "quantities": [
        "quantity('1Ki') == quantity('1024') && quantity('1').isLessThan(quantity('1.5'))",
        "quantity('50k').asInteger() == 50000 && !quantity('1000m').isInteger()",
        "sign(quantity('-1')) == -1 && quantity('500m').asApproximateFloat() == 0.5",
        "quantity('1e999').asApproximateFloat() > 1e308 && "
        "quantity('-1e999').asApproximateFloat() < -1e308",
        "quantity('e999').asApproximateFloat() != quantity('e999').asApproximateFloat()",
        "quantity('-12345678901234567890123e20').asApproximateFloat() == -1.2345678901234569e+42",
        "quantity('1').add(2).compareTo(quantity('3')) == 0 && isQuantity('1Gi') && "
        "!isQuantity('x')",
    ],
    "versions": [
        "semver('1.2.3').major() == 1 && semver('1.2.3').isLessThan(semver('1.10.0'))",
        "semver('1.0.0-alpha').compareTo(semver('1.0.0')) == -1",
        "semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.11'))",
        "semver('v01.2', true) == semver('1.2.0') && isSemver('1.2.3') && !isSemver('v1.2.3')",
    ],
    "named formats": [
        "!format.dns1123Label().validate('my-label').hasValue()",
        "format.dns1123Label().validate('My').hasValue()",
        "format.named('uuid').value() == format.uuid() && !format.named('x').hasValue()",
        "format.date().validate('2021-02-30').hasValue()",
        "!format.datetime().validate('2021-02-28T00:00:00Z').hasValue()",
    ],
}


@pytest.mark.parametrize("expression", [text for area in _AREAS.values() for text in area])
def test_true(expression: str) -> None:
    assert outcome(expression) is True


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'a'.charAt(5) == ''", "index out of range: 5"),
        ("'a'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("[1].slice(0, 5) == []", "cannot slice(0, 5), list is length 1"),
        ("[1].filter(x, false).min() == 1", "min called on empty list"),
        ("quantity('x') == quantity('1')", "quantities must match the regular expression "
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("quantity('0.5').asInteger() == 1", "cannot convert value to integer"),
        ("semver('1.2') == semver('1.2.0')", "No Major.Minor.Patch elements found"),
        ("ip('::ffff:1.2.3.4').family() == 4",
         'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("url('x').getHost() == ''",
         'URL parse error during conversion from string: parse "x": invalid URI for request'),
        ("string(b'\\xff' + b'a') == ''", "invalid UTF-8 in bytes, cannot convert to string"),
        ("timestamp(253402300799 + 1) == timestamp(0)", "timestamp overflow"),
        ("timestamp(0).getHours('Nowhere/Land') == 0", "unknown time zone Nowhere/Land"),
        ("['(', 'a'].exists_one(p, 'a'.matches(p))",
         "error parsing regexp: missing closing ): `(`"),
    ],
)  # fmt: skip
def test_errors(expression: str, text: str) -> None:
    assert outcome(expression) == text


def test_every_declared_function_exists_and_no_other() -> None:
    # These are compiled in ways of their own: they do not evaluate all that they are given.
    special = {
        "@not_strictly_false", "_!=_", "_&&_", "_==_", "_?._", "_?_:_", "_[?_]", "_[_]", "_||_",
        "or", "orValue",
    }  # fmt: skip
    assert set(DECLARED) - special == set(FUNCTIONS)
    assert special <= set(DECLARED)
