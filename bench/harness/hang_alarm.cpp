#include "bench/harness/hang_alarm.hpp"

#include "bench/harness/samples.hpp"

#include <signal.h>
#include <unistd.h>

namespace vma {
namespace {

constexpr int hang_status = 3;

void report_hang(int) {
  constexpr char message[] = "HANG: no move finished within the watchdog's limit\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message, sizeof message - 1);
  _exit(hang_status);
}

}  // namespace

HangAlarm::HangAlarm()
    : limit_s_(static_cast<unsigned>(setting("VMART_BENCH_WATCHDOG_SECONDS", 30))) {
  struct sigaction action = {};
  action.sa_handler = report_hang;
  sigaction(SIGALRM, &action, nullptr);
  feed();
}

HangAlarm::~HangAlarm() {
  alarm(0);
}

void HangAlarm::feed() {
  alarm(limit_s_);
}

}  // namespace vma
