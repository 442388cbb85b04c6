// Goal: if several processes start in one folder at the same time, one experiment gets it.
#include "lab/experiments/result_folder.hpp"

#include "base/executor.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace vma {
namespace {

namespace fs = std::filesystem;

/// Holds the lock of a folder, so that others have looked into it but wait for the lock.
class HeldFolder {
 public:
  explicit HeldFolder(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    EXPECT_EQ(flock(descriptor_, LOCK_EX), 0);
    struct stat found {};
    EXPECT_EQ(fstat(descriptor_, &found), 0);
    inode_ = fmt::format(":{} ", found.st_ino);
  }
  ~HeldFolder() { close(descriptor_); }
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  /// "7: -> FLOCK  ADVISORY  READ 1234 fd:01:5678 0 EOF" is a waiting process.
  std::size_t waiting() const {
    std::istringstream locks(text_of("/proc/locks"));
    std::size_t count = 0;
    for (std::string line; std::getline(locks, line);)
      count += line.find("-> FLOCK") != line.npos && line.find(inode_) != line.npos ? 1 : 0;
    return count;
  }

 private:
  const int descriptor_;
  std::string inode_;
};

TEST(ResultFolder, OfSeveralExperimentsThatBeginAtOnceOneGetsIt) {
  TemporaryFolder folder;
  const std::string path = folder / "results";
  fs::create_directory(path);
  std::vector<Experiment> experiments(4);
  std::vector<std::string> refused(experiments.size());
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    experiments[i].file = fmt::format("{}.json", i);
    // Each of two experiments starts twice.
    experiments[i].text = fmt::format("the text of {}", i / 2);
  }
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  {
    const HeldFolder held(path);
    for (std::size_t i = 0; i < experiments.size(); ++i) {
      tasks.push_back(executor.spawn("begins", [&, i] {
        refused[i] = error_of([&] { ResultFolder(path, experiments[i]); });
      }));
    }
    while (held.waiting() < experiments.size()) std::this_thread::yield();
    EXPECT_FALSE(fs::exists(path + "/experiment.json"));
  }
  for (const auto& task : tasks) task->join();
  const std::string text = text_of(path + "/experiment.json");
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    const bool won = text == experiments[i].text;
    EXPECT_EQ(refused[i].empty(), won) << refused[i];
    if (won) continue;
    EXPECT_NE(refused[i].find("experiment.json: is of an experiment other than"),
              std::string::npos);
  }
  EXPECT_FALSE(fs::exists(path + "/unfinished"));
}

}  // namespace
}  // namespace vma
