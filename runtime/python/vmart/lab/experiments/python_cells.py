"""As `vmart-lab cells`, in a process of Python, for experiments with policies of Python: answers the questions of `Worker` on
standard input. What policies print goes to standard error."""

import json
import os
import select
import threading


def take_pipes():
    """Keeps standard input for questions and standard output for answers alone: policies find the one empty."""
    questions, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(questions, "rb"), answers


def end_with_the_reader(answers):
    """Ends this process once nobody reads its answers, even in the middle of a cell."""
    output = select.poll()
    output.register(answers, 0)  # Reports only that the reader is gone.

    def wait():
        output.poll()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def answerer():
    """What answers a question; by why it cannot, where the extension is not installed."""
    from vmart.lab.errors import MissingLibrary, extension
    from vmart.lab.policy_files import kinds_in

    try:
        return extension("an experiment with policies of Python").Worker(kinds_in).answer
    except MissingLibrary as error:
        refusal = json.dumps({"error": str(error)}, separators=(",", ":")) + "\n"
        return lambda question: refusal


def main():
    questions, answers = take_pipes()
    end_with_the_reader(answers)
    answer = answerer()
    for question in questions:
        line = answer(question.decode().rstrip("\n")).encode()
        while line:
            line = line[os.write(answers, line):]


if __name__ == "__main__":
    main()
