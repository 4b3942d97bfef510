"""Which rank is in which collective, from frames and Flight Recorders, and how the odd ones differ from the others.

Every rank waits for every other one, so the chain of waiters says nothing; only the calls they wait in can tell. `split` answers
with a `Split`; rules only put it into words.

- `splitting`: the differences, in their order; `differences`: their names, and the numbers that prove some of them;
- `point_to_point`: sends and receives that do not meet; `arguments`: the same call with another root, group or value;
- `odd_ones`: which of two groups does what it should not.
"""

from mpmon.diagnosis.stuck.collectives.arguments import differing, named_group, named_root
from mpmon.diagnosis.stuck.collectives.differences import Differs, Split, names_of
from mpmon.diagnosis.stuck.collectives.splitting import split

__all__ = ["Differs", "Split", "differing", "named_group", "named_root", "names_of", "split"]
