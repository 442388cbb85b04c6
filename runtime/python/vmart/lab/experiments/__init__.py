"""Runs experiments: reads their files, makes their traces, has `vmart-lab cells` replay their cells, and
keeps a folder of results. Standard library only.

    reader, fields   an experiment's file, read and checked
    experiment       what it says, and its cells
    traces           traces, made or given, and read to their end
    run              what is unfinished is run, on the workers of a `WorkerPool`
    worker           processes of `vmart-lab`
    folder, table    what is left in the folder of results

docs/guide/experiments.md describes files and results."""
