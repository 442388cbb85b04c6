#pragma once

#include "base/loader/loaded_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace vma {

/// Visits each library of the process once, when the system's loader has filled its slots. Any
/// thread.
///
/// Has no lock of its own, because a thread comes here with the loader's while constructors run
/// inside `dlopen`. What it remembers changes only inside walks, of which the loader lets one run
/// at a time.
class NewLibraries {
 public:
  /// `opens` and `closes` are the system's `dlopen` and `dlclose`. `visit` takes a `LoadedLibrary`,
  /// must not call the loader, and returns false if it is to see the library the next time, too.
  template <typename Visit>
  void visit(void* (*opens)(const char*, int), Visit visit) noexcept {
    Walk<Visit> walk{*this, visit, ++passes_};
    dl_iterate_phdr(&count<Visit>, &walk);
    if (walk.number == settled_.load(std::memory_order_acquire)) return;
    dl_iterate_phdr(&note<Visit>, &walk);
    if (walk.number == settled_.load(std::memory_order_acquire)) return;
    // A library is in the list before its slots are filled. Once this thread has had the lock of
    // the loader, those that were in it are filled.
    if (void* const program = opens(nullptr, RTLD_LAZY)) dlclose(program);
    dl_iterate_phdr(&play<Visit>, &walk);
    if (walk.all) settled_.store(walk.number, std::memory_order_release);
  }
  /// All are visited again.
  void forget() noexcept {
    forgets_.store(true, std::memory_order_release);
    settled_.store(0, std::memory_order_release);
  }

 private:
  struct Known {
    ElfW(Addr) base = 0;
    unsigned long long pass = 0;  // The first that saw it.
    bool done = false;
  };
  template <typename Visit>
  struct Walk {
    NewLibraries& all_libraries;
    Visit& visit;
    const unsigned long long pass;
    unsigned long long number = 0;      // How many were ever loaded,
    unsigned long long removed = 0;     // and how many are gone.
    std::size_t libraries = 0;          // As many are loaded.
    std::size_t at = 0;                 // The next one, in the order of the loader's list,
    std::size_t kept = 0;               // which begins with so many that the last walk saw.
    std::size_t former = 0, known = 0;  // Of the entries of that walk, the next and the end.
    bool all = true;
  };

  template <typename Visit>
  static int count(dl_phdr_info* info, std::size_t, void* data) noexcept {
    auto& walk = *static_cast<Walk<Visit>*>(data);
    walk.number = info->dlpi_adds;
    walk.removed = info->dlpi_subs;
    ++walk.libraries;
    return walk.number == walk.all_libraries.settled_.load(std::memory_order_relaxed) ? 1 : 0;
  }
  /// The loader appends to its list. So what was loaded since the last walk is at the end: a
  /// library that was opened again where it had been is another one, and all before are the same.
  template <typename Visit>
  static int note(dl_phdr_info* info, std::size_t, void* data) noexcept {
    auto& walk = *static_cast<Walk<Visit>*>(data);
    NewLibraries& all = walk.all_libraries;
    if (walk.at == 0) {
      const auto since = static_cast<std::size_t>(info->dlpi_adds - all.added_);
      const bool counted = info->dlpi_adds == walk.number && info->dlpi_subs == walk.removed;
      const bool keeps = !all.forgets_.exchange(false) && counted && walk.libraries > since;
      walk.kept = keeps ? walk.libraries - since : 0;
      walk.number = info->dlpi_adds;
      walk.known = all.count_;
      all.count_ = 0;
      all.added_ = info->dlpi_adds;
      all.removed_ = info->dlpi_subs;
    }
    if (walk.at++ < walk.kept) {
      while (walk.former < walk.known && all.known_[walk.former].base != info->dlpi_addr) {
        ++walk.former;  // It is gone.
      }
      if (walk.former < walk.known) {
        all.known_[all.count_++] = all.known_[walk.former++];
        return 0;
      }
    }
    if (all.count_ < all.known_.size()) {
      all.known_[all.count_++] = {info->dlpi_addr, walk.pass, false};
    }
    return 0;
  }
  template <typename Visit>
  static int play(dl_phdr_info* info, std::size_t, void* data) noexcept {
    auto& walk = *static_cast<Walk<Visit>*>(data);
    NewLibraries& all = walk.all_libraries;
    Known* const known = all.find(info->dlpi_addr);
    // One that came since is left for its own pass, or one that has no room for the next one.
    if (known == nullptr || known->pass > walk.pass || info->dlpi_subs != all.removed_) {
      walk.all = false;
    } else if (!known->done) {
      known->done = walk.visit(LoadedLibrary(*info));
      walk.all = walk.all && known->done;
    }
    return 0;
  }
  Known* find(ElfW(Addr) base) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (known_[i].base == base) return &known_[i];
    }
    return nullptr;
  }

  std::atomic<unsigned long long> settled_{0};  // Those of so many are done.
  std::atomic<unsigned long long> passes_{0};
  std::atomic<bool> forgets_{false};
  // Changed inside walks.
  unsigned long long added_ = 0, removed_ = 0;
  std::size_t count_ = 0;
  std::array<Known, 4096> known_{};  // No allocator may run inside a walk: it may be the program's.
};

}  // namespace vma
