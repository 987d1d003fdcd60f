"""The Common Expression Language, as Kubernetes has it for selectors of devices.

A text becomes tokens, a tree with macros expanded, a tree with types, an estimate of its cost, and
closures. The package is pure: nothing here knows pods, nodes or the API server.

- `arithmetic`: operators on numbers, strings, lists, durations and timestamps, with overflows.
- `ast`: the tree of an expression.
- `attributes`: chains of selections and indexes, resolved as a whole.
- `authorization`: functions of the authorizer, which no selector has a value for.
- `calls`: closures of calls, operators and literals with parts.
- `checker`: static types: which overloads calls have, and what the API server refuses.
- `compiler`: a checked tree to closures, with or without the cost counted.
- `conversions`: conversions between types.
- `declarations`: the functions of the environment, one line for each overload.
- `errors`: what can go wrong, and what no operator absorbs.
- `estimate`: what an expression may cost at most, as the API server estimates it.
- `estimate_calls`: what a call may cost, and how large its result may be.
- `folds`: comprehensions and bound variables.
- `formats`: named formats: what names, labels and dates must look like.
- `formatting`: `format` of strings.
- `kubernetes`: quantities and semantic versions.
- `lexer`: characters to tokens, literals read.
- `library`: all functions by name.
- `limits`: how much compiling and evaluating may do.
- `lists`: functions on lists, sets and optionals.
- `macros`: calls that the parser replaces by what they stand for.
- `messages`: well-known messages of protocol buffers.
- `network`: IP addresses and CIDRs.
- `parser`: tokens to a tree, within the limits of cel-go.
- `patterns`: functions with regular expressions.
- `reads`: what an expression may read of a device.
- `recursion`: room on the stack for deep expressions.
- `regex`: regular expressions with the semantics of RE2, in linear time.
- `regex_syntax`: the syntax of RE2.
- `runtime_cost`: what calls cost at run time.
- `selector`: selectors and what they see of a device: the door to all of it.
- `sizes`: ranges of sizes and costs, and the sizes of what a device has.
- `state`: what closures share during one evaluation.
- `texts`: functions on strings.
- `times`: durations and timestamps.
- `types`: static types, and which may stand for which.
- `urls`: URLs.
- `validation`: checks of literals after the types are known.
- `values`: values at run time, their equality and order.
"""

from scheduler.cel.errors import CelCompileError, CelRuntimeError
from scheduler.cel.selector import CelDevice, CelSelector, compile_selector, selectors_usage

Selector = CelSelector

__all__ = [
    "CelCompileError",
    "CelDevice",
    "CelRuntimeError",
    "CelSelector",
    "Selector",
    "compile_selector",
    "selectors_usage",
]
