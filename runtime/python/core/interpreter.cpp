#include "python/core/interpreter.hpp"

#include <pthread.h>
#include <unistd.h>

namespace vma {

std::atomic<unsigned> Interpreter::state{0};

bool Interpreter::enter() {
  unsigned before = state.load();
  do {
    if ((before & ended) != 0) return false;
  } while (!state.compare_exchange_weak(before, before + 1));
  return true;
}

void Interpreter::leave() {
  if (state.fetch_sub(1) == (ended | 1u)) state.notify_all();
}

void Interpreter::sleep_until_the_end() {
  for (;;) pause();
}

void Interpreter::end() {
  const Unlocked unlocked;
  unsigned now = state.fetch_or(ended) | ended;
  while (now != ended) {
    state.wait(now);
    now = state.load();
  }
}

void Interpreter::end_in_children() {
  pthread_atfork(nullptr, nullptr, [] { state.store(ended); });
}

}  // namespace vma
