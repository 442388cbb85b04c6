// Goal: a reader sees either the old or the complete new file, whatever fails during the write.
// Method: files in a temporary folder; a file size limit simulates a full disk.
#include "base/whole_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>

namespace vma {
namespace {

namespace fs = std::filesystem;

class WholeFileTest : public testing::Test {
 protected:
  WholeFileTest() {
    folder_ = (fs::temp_directory_path() / "vmart-whole-file-XXXXXX").string();
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder for the test");
  }
  ~WholeFileTest() override { fs::remove_all(folder_); }

  std::string in_folder(const std::string& name) const { return folder_ + "/" + name; }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  static std::string text_of(const std::string& file) { return read_file(file).value_or("none"); }
  static void put(const std::string& file, const std::string& text) {
    WholeFile whole(file, {"test"});
    whole.write(text);
    whole.become(file);
  }
  template <typename Body>
  static std::string error_of(Body&& body) {
    try {
      body();
    } catch (const Error& error) {
      kind() = error.kind();
      return error.what();
    }
    return "";
  }
  static ErrorKind& kind() {
    static ErrorKind kind{};
    return kind;
  }

 private:
  std::string folder_;
};

/// Limits the size of files that this process writes, as a full disk would.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(WholeFileTest, ReplacesTheFileOnlyOnceItIsWhole) {
  const std::string file = in_folder("file");
  put(file, "old");
  {
    WholeFile whole(file, {.call = "test", .mode = 0640});
    whole.write("new ");
    whole.write("text");
    EXPECT_EQ(text_of(file), "old");
    whole.become(file);
  }
  EXPECT_EQ(text_of(file), "new text");
  struct stat found {};
  ASSERT_EQ(stat(file.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0640u);
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, OneThatIsGivenUpLeavesTheOldFile) {
  const std::string file = in_folder("file");
  put(file, "old");
  {
    WholeFile whole(file, {"test"});
    whole.write("half");
  }
  EXPECT_EQ(text_of(file), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, AFullDiskLeavesTheOldFile) {
  const std::string file = in_folder("file");
  put(file, "old");
  const std::string error = error_of([&] {
    const FileLimit limit(4096);
    WholeFile whole(file, {.call = "test", .write_kind = ErrorKind::driver_failure});
    whole.write(std::string(10'000, 'x'));
    whole.become(file);
  });
  EXPECT_NE(error.find(file + ": File too large"), std::string::npos) << error;
  EXPECT_EQ(kind(), ErrorKind::driver_failure);
  EXPECT_EQ(text_of(file), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, AFolderThatIsMissingIsNamed) {
  const std::string file = in_folder("none/file");
  const std::string error = error_of([&] { WholeFile(file, {"test"}); });
  EXPECT_NE(error.find(file + ": No such file"), std::string::npos) << error;
  EXPECT_EQ(kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(files(), 0);
}

TEST_F(WholeFileTest, FollowsALinkAndWritesToADevice) {
  const std::string file = in_folder("file"), link = in_folder("link");
  put(file, "old");
  fs::create_symlink(file, link);
  put(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text_of(file), "new");
  EXPECT_EQ(files(), 2);
  if (!fs::exists("/dev/full")) return;
  fs::remove(link);
  fs::create_symlink("/dev/full", link);
  EXPECT_NE(error_of([&] { put(link, "new"); }).find("No space"), std::string::npos);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_EQ(files(), 2);
}

TEST_F(WholeFileTest, BecomesTheFirstOfANameOnlyOnce) {
  const std::string name = in_folder("first");
  WholeFile one(name, {"test"}), other(name, {"test"});
  one.write("one");
  other.write("other");
  EXPECT_TRUE(one.become_first(name));
  EXPECT_FALSE(other.become_first(name));
  EXPECT_EQ(text_of(name), "one");
}

TEST_F(WholeFileTest, SaysBeforehandWhereNoneIsPossible) {
  const auto says = [&](const std::string& file) {
    return error_of([&] { WholeFile::require_possible(file, {"test"}); });
  };
  const std::string file = in_folder("file");
  EXPECT_EQ(says(file), "");
  EXPECT_EQ(files(), 0);
  put(file, "there");
  EXPECT_EQ(says(file), "");
  EXPECT_EQ(text_of(file), "there");
  EXPECT_NE(says(in_folder("none/file")).find("No such file"), std::string::npos);
  EXPECT_NE(says(in_folder("")).find("Is a directory"), std::string::npos);
}

}  // namespace
}  // namespace vma
