#include "tools/vmart-lab/lab_commands.hpp"

#include "base/executor.hpp"
#include "lab/experiments/lab_worker.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

namespace vma {
namespace {

/// Ends this process once nobody reads its answers, even in the middle of a cell.
void end_with_the_reader() {
  const auto task = ThreadedExecutor().spawn("reader's end", [] {
    pollfd output{STDOUT_FILENO, 0, 0};  // Reports only that the reader is gone.
    while (poll(&output, 1, -1) < 0) {
    }
    _exit(1);
  });
  task->abandon();
}

}  // namespace

int answer_questions() {
  end_with_the_reader();
  LabWorker worker;
  for (std::string question; std::getline(std::cin, question);) {
    const std::string line = worker.answer(question);
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace vma
