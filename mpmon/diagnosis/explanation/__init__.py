"""From stuck sets to what people read: the cause, how sure it is, the sentence, the evidence, the advice.

- `explain`: a finding; `symptoms`: what is said where no rule knows the cause; `ranking`: which findings are told;
- `basis`: the threads a finding rests on; `proof`: how sure it is; `advice`: best practices besides the rule's own;
- `views`: a line for every process; `brief`: the first finding in a few words.
"""
