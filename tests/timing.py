"""Times in tests: only as ratios of one process, whose machine may be slow and busy."""

import time


def times_as_long(function, reference, repeats=5):
    """How often the time of ``reference(repeat)`` that of ``function(repeat)`` is: least
    processor times, taken in turns.
    """
    measured = {function: [], reference: []}
    for repeat in range(repeats):
        for run, times in measured.items():
            start = time.process_time()
            run(repeat)
            times.append(time.process_time() - start)
    return min(measured[function]) / min(measured[reference])
