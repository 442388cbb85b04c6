#include "tools/vmart-lab/lab_commands.hpp"

#include "base/executor.hpp"
#include "lab/experiments/lab_worker.hpp"

#include <vma/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

namespace vma {
namespace {

/// Keeps standard output for answers alone, and returns its new descriptor: what a policy prints
/// goes to standard error.
int take_output() {
  const int answers = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (answers < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    throw Error(ErrorKind::driver_failure, "vmart-lab cells", "standard output is closed");
  return answers;
}

/// Ends this process once nobody reads its answers, even in the middle of a cell.
void end_with_the_reader(int answers) {
  const auto task = ThreadedExecutor().spawn("reader's end", [answers] {
    pollfd output{answers, 0, 0};  // Reports only that the reader is gone.
    while (poll(&output, 1, -1) < 0) {
    }
    _exit(1);
  });
  task->abandon();
}

}  // namespace

int answer_questions() {
  const int answers = take_output();
  end_with_the_reader(answers);
  std::FILE* const output = fdopen(answers, "w");
  LabWorker worker;
  for (std::string question; std::getline(std::cin, question);) {
    const std::string line = worker.answer(question);
    std::fwrite(line.data(), 1, line.size(), output);
    std::fflush(output);
  }
  return 0;
}

}  // namespace vma
