// Goal: another user, or a client of the control socket, can make no program load a library or
// write a file. Method: plays the attack, as root in a child process that is another user; a
// program with the rights of its caller obeys the same variables, which shows that the attack would
// work.
#include "unit/control/control_peer.hpp"

#include <vma/vma.hpp>

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <grp.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace vma {
namespace {

namespace fs = std::filesystem;

constexpr uid_t attacker = 64'124;

/// Where the attacker may write, and a copy of the program of root.
class ElevatedProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    struct statvfs mounted {};
    ASSERT_EQ(statvfs(folder_.path().c_str(), &mounted), 0);
    if ((mounted.f_flag & ST_NOSUID) != 0) GTEST_SKIP() << "/tmp honours no set-user-ID programs";
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    ASSERT_TRUE(fs::create_directory(theirs_));
    ASSERT_EQ(chown(theirs_.c_str(), attacker, attacker), 0);
    fs::copy_file(VMART_LOADED_LIBRARY, library_);
    fs::copy_file(VMART_ELEVATED_PROGRAM, program_);
    fs::copy_file(VMART_TEST_MACHINE, folder_.path("machine.json"));
  }

  /// What exists afterwards of what the variables name. Each "=" begins with the name of a file in
  /// the attacker's folder.
  std::vector<std::string> written_by(mode_t mode, std::vector<std::string> variables) {
    EXPECT_EQ(chmod(program_.c_str(), mode), 0);
    fs::remove_all(theirs_);
    EXPECT_TRUE(fs::create_directory(theirs_));
    EXPECT_EQ(chown(theirs_.c_str(), attacker, attacker), 0);
    variables.push_back("VMART_TEST_PROOF=" + theirs_ + "/proof");
    variables.push_back("HOME=" + theirs_);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    char* const arguments[] = {program_.data(), machine_.data(), nullptr};
    const pid_t child = fork();
    if (child == 0) {
      if (setgroups(0, nullptr) != 0 || setgid(attacker) != 0 || setuid(attacker) != 0) _exit(3);
      if (chdir(theirs_.c_str()) != 0) _exit(4);
      execve(program_.c_str(), arguments, environment.data());
      _exit(5);
    }
    EXPECT_EQ(waitpid(child, &status_, 0), child);
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(theirs_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  bool ran() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }

  TestFolder folder_;
  const std::string theirs_ = folder_.path("theirs");
  const std::string library_ = folder_.path("library.so");
  std::string program_ = folder_.path("program");
  std::string machine_ = "sim:" + folder_.path("machine.json");
  int status_ = 0;
};

TEST_F(ElevatedProgram, LoadsNothingThatItsCallerNames) {
  for (const char* name : {"VMART_POLICY", "VMART_NVML"}) {
    std::vector<std::string> variables{fmt::format("{}={}", name, library_)};
    EXPECT_EQ(written_by(0755, variables), std::vector<std::string>{"proof"}) << name;
    EXPECT_EQ(written_by(04755, variables), std::vector<std::string>{}) << name;
    EXPECT_TRUE(ran()) << name;
  }
}

TEST_F(ElevatedProgram, WritesNothingWhereItsCallerSays) {
  for (const char* name : {"VMART_TIMELINE", "VMART_RECORD", "VMART_DECISIONS"}) {
    const std::vector<std::string> variables{fmt::format("{}={}/written", name, theirs_)};
    EXPECT_FALSE(written_by(0755, variables).empty()) << name;
    EXPECT_EQ(written_by(04755, variables), std::vector<std::string>{}) << name;
    EXPECT_TRUE(ran()) << name;
  }
}

TEST_F(ElevatedProgram, IsNotDisturbedByItsCallersValues) {
  const std::vector<std::string> variables{"VMART_HOLD_LIMIT_MS=soon", "VMART_DEVICES=7",
                                           "VMART_CALIBRATION=/etc/shadow"};
  written_by(0755, variables);
  EXPECT_FALSE(ran());
  written_by(04755, variables);
  EXPECT_TRUE(ran());
}

/// Sets a policy of the library over the control socket of this process.
std::string answer_to_library(const std::string& library) {
  TestFolder folder;
  RuntimeOptions options;
  options.driver = "sim:test-2";
  options.control = folder.path("it.sock");
  Runtime runtime(options);
  ControlPeer peer(options.control);
  const boost::json::object answer =
      peer.ask(fmt::format(R"({{"command": "policy", "set": "{}"}})", library));
  const boost::json::value* const error = answer.if_contains("error");
  return error == nullptr ? "set" : std::string(error->at("kind").as_string());
}

TEST(ControlClient, LoadsNoLibraryWithoutPermission) {
  TestFolder folder;
  const std::string library = folder.path("library.so");
  fs::copy_file(VMART_LOADED_LIBRARY, library);
  const Set proof("VMART_TEST_PROOF", folder.path("proof"));
  for (const std::string& text : {library, "guarded+" + library, "x@" + library}) {
    EXPECT_EQ(answer_to_library(text), "not_permitted") << text;
  }
  {
    const Set forbidden("VMART_CONTROL_LIBRARIES", "0");
    EXPECT_EQ(answer_to_library(library), "not_permitted");
  }
  EXPECT_FALSE(fs::exists(folder.path("proof")));
  // With permission it is loaded, and turns out to have no policy.
  const Set allowed("VMART_CONTROL_LIBRARIES", "1");
  EXPECT_EQ(answer_to_library(library), "invalid_argument");
  EXPECT_TRUE(fs::exists(folder.path("proof")));
}

}  // namespace
}  // namespace vma
