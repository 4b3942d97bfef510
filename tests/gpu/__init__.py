"""What mpmon takes for granted about GPUs, confirmed on a machine that has one: `python -m pytest tests/gpu`.

One GPU and a torch with CUDA are enough; without a GPU the tests of `test_gpu` are skipped.  The cases are those of
`mpmon.doctor.gpu` and those here that need more time or a whole job: `hangs`, `remarks`, `costs`.  They end with a table,
*confirmed*, *wrong* or *not applicable here*, and `--gpu-report FILE` writes it.  A file that lies in `confirmed/` has its
entry in the manual's page `confirmed` (`MPMON_UPDATE_GOLDENS=1` writes it there).

The same cases run on the stand-ins wherever they can be expressed there (`test_standins`): what a GPU has shown to be wrong
is to be mended in the case and in the stand-in, so that they agree again.  `python -m tests.gpu.record FILE` writes what a
real driver says as a scenario for the stand-in of `tests.nvml`.
"""
