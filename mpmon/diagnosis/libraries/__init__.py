"""What mpmon knows of libraries, a file each.

- `copies`: packages that are copies of parts of the standard library, function for function: whatever is known of the
  original is known of them.
- `tasks`: code that any library runs on behalf of somebody, known by the shape of a stack alone;
- `native_waits`: functions of C and C++ in which a thread waits, and for what.
"""
