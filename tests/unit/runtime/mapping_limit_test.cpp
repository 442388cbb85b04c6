// Goal: if the kernel allows the process no more mappings, an allocation reports this with the
// limit and a remedy. Method: a child process that uses up all mappings.
#include "base/mapping_limit.hpp"
#include "support/sanitizer.hpp"

#include <vma/error.hpp>
#include <vma/runtime.hpp>

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace vma {
namespace {

/// Adjacent pages with different rights are separate mappings.
class AllMappings {
 public:
  explicit AllMappings(std::size_t most) : size_bytes_(2 * most * page) {
    void* const found =
        mmap(nullptr, size_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) throw std::runtime_error("mmap refuses the addresses");
    begin_ = static_cast<char*>(found);
    for (std::size_t at = 0; at < size_bytes_; at += 2 * page) {
      if (mprotect(begin_ + at, page, PROT_READ) != 0) break;
    }
  }
  ~AllMappings() { munmap(begin_, size_bytes_); }
  AllMappings(const AllMappings&) = delete;
  AllMappings& operator=(const AllMappings&) = delete;

 private:
  static constexpr std::size_t page = 4096;
  const std::size_t size_bytes_;
  char* begin_ = nullptr;
};

bool names_limit(const std::string& text, std::size_t limit) {
  return text.find("vm.max_map_count allows " + std::to_string(limit)) != std::string::npos;
}

/// Prepares everything before the mappings run out, so that only the allocation under test needs
/// one.
int alloc_without_mappings(std::size_t limit) {
  RuntimeOptions options;
  options.driver = "sim:test-2";
  Runtime runtime(options);
  AllocOptions chunked;
  chunked.chunk_bytes = 4096;
  runtime.free(runtime.alloc(4096, gpu(0), chunked));
  int status = 1;
  {
    const AllMappings all(limit);
    for (int i = 0; i < 10 && status == 1; ++i) {  // The cache serves the first few.
      try {
        runtime.alloc(64 * 4096, gpu(0), chunked);
      } catch (const Error& error) {
        const bool named =
            error.kind() == ErrorKind::out_of_memory && names_limit(error.what(), limit);
        status = named ? 0 : 2;
        if (!named) fprintf(stderr, "%s\n", error.what());
      } catch (const std::exception& error) {
        fprintf(stderr, "%s\n", error.what());
        status = 3;
      }
    }
  }
  return status == 0 && runtime.alloc(64 * 4096, gpu(0), chunked) == nullptr ? 4 : status;
}

TEST(MappingLimit, IsNamedByTheAllocationThatMeetsIt) {
  constexpr std::size_t limit_max = 2'000'000;  // Higher limits take the kernel minutes.
  if (under_thread_sanitizer || under_address_sanitizer) {
    GTEST_SKIP() << "a sanitizer has mappings of its own, and cannot do without them";
  }
  std::size_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  if (limit == 0 || limit > limit_max) GTEST_SKIP() << "vm.max_map_count is " << limit;
  EXPECT_FALSE(mapping_limit_reached());
  const pid_t child = fork();
  if (child == 0) {
    alarm(240);
    _exit(alloc_without_mappings(limit));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace vma
