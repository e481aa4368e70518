"""What the program was trained with (`training.py`): whoever builds it again with the same counts gets the same bytes."""


def make(trial, payload):
    if payload.counts is None:
        return trial.left_out("the counts of the training", "the program is not trained")
    trial.written(f"tidings-{payload.version}-{payload.target}.profdata", payload.counts.read_bytes)
