// Goal: the current listener is told, a replaced one no longer is, and having none is fine.
#include "base/listener.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace vma {
namespace {

TEST(Listener, TellsWhoListensNow) {
  Listener<int> listener;
  const auto tell = [&] { listener.tell([](int& told) { ++told; }); };
  EXPECT_FALSE(listener.any());
  tell();
  int first = 0, second = 0;
  const auto borrowed = [](int*) {};
  listener.set(std::shared_ptr<int>(&first, borrowed));
  EXPECT_TRUE(listener.any());
  tell();
  tell();
  listener.set(std::shared_ptr<int>(&second, borrowed));
  tell();
  listener.set(nullptr);
  tell();
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
}

TEST(Listener, WaitsForTheFormerOneBeforeItIsReplaced) {
  Listener<int> listener;
  int told = 0;
  listener.set(std::shared_ptr<int>(&told, [](int*) {}));
  std::atomic<bool> inside{false}, let_go{false}, ended{false}, replaced{false};
  std::thread teller([&] {
    listener.tell([&](int&) {
      inside = true;
      while (!let_go) std::this_thread::yield();
      ended = true;
    });
  });
  while (!inside) std::this_thread::yield();
  std::thread setter([&] {
    listener.set(nullptr);
    replaced = true;
    EXPECT_TRUE(ended) << "it was still being told";
  });
  while (listener.any()) std::this_thread::yield();
  EXPECT_FALSE(replaced);
  let_go = true;
  setter.join();
  teller.join();
  EXPECT_TRUE(replaced);
}

}  // namespace
}  // namespace vma
