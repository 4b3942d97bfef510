"""What one thread's stack says that it waits for, whatever the rest of the job does.

- `frames`: whose code a frame is, and which library call encloses it; `copies`: packages that copy the standard library;
- `shapes`: code that any library runs on behalf of a caller, by the shape of the stack;
- `native_waits`, `merging`, `natives`: functions of C and C++, their frames among those of Python, and what they mean;
- `waits`: the wait itself; `lock_annotations`: what each frame holds and waits for, as jstack prints it.
"""
