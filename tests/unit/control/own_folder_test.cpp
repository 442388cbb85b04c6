// Goal: the processes of a user find each other's sockets, and no other user can prevent it or take
// their place; names of sockets are unique on the machine, whatever namespaces the processes have.
// Method: a child process that is another user (as root), or the first of a PID namespace.
#include "control/own_folder.hpp"

#include "control/control_socket.hpp"
#include "unit/control/control_peer.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace vma {
namespace {

namespace fs = std::filesystem;

// Users whose folders nothing else uses.
constexpr uid_t victim = 64'123, attacker = 64'124;
const std::string first_name = "/tmp/vmart-64123";

/// What `told` returns in a child process in which `become` did not fail; "failed" otherwise.
std::string told_by_child(const std::function<bool()>& become,
                          const std::function<std::string()>& told) {
  int way[2];
  EXPECT_EQ(pipe(way), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text = "failed";
    if (become()) text = told();
    _exit(write(way[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(way[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t count; (count = read(way[0], bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<std::size_t>(count));
  }
  close(way[0]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return text;
}

bool become(uid_t user) {
  return setgroups(0, nullptr) == 0 && setgid(user) == 0 && setuid(user) == 0;
}

/// The folder of the victim, after a socket has been opened in it.
std::string folder_of_victim() {
  return told_by_child([] { return become(victim); },
                       []() -> std::string {
                         try {
                           const std::string folder = own_folder();
                           const ControlSocket socket(folder + "/1.sock");
                           const auto all = folders_of(victim);
                           return std::ranges::count(all, folder) == 1 ? folder : "not found";
                         } catch (const Error& error) {
                           return error.what();
                         }
                       });
}

/// Without a folder of the victim, before and after. Such tests of several processes exclude each
/// other, since the victim is the same user in all of them.
class AnotherUsersFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    turn_ = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(flock(turn_, LOCK_EX), 0);
    unsetenv("XDG_RUNTIME_DIR");
    clear();
  }
  void TearDown() override {
    if (geteuid() == 0) clear();
    close(turn_);
  }
  static void clear() {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator("/tmp")) {
      if (entry.path().native().starts_with(first_name)) found.push_back(entry.path());
    }
    for (const fs::path& path : found) fs::remove_all(path);
  }

 private:
  int turn_ = -1;
};

TEST_F(AnotherUsersFolder, IsPrivateWhateverTheUmask) {
  const mode_t before = umask(0);
  EXPECT_EQ(folder_of_victim(), first_name);
  umask(before);
  EXPECT_EQ(mode_of(first_name), 0700U);
}

TEST_F(AnotherUsersFolder, HasAFreeNameWhereTheFirstIsTaken) {
  const auto expect_free_name = [] {
    const std::string folder = folder_of_victim();
    EXPECT_TRUE(folder.starts_with(first_name + "-")) << folder;
    EXPECT_EQ(mode_of(folder), 0700U);
    EXPECT_EQ(folder_of_victim(), folder) << "the next process finds the same";
    return folder;
  };
  ASSERT_EQ(told_by_child([] { return become(attacker); },
                          [] { return std::to_string(mkdir(first_name.c_str(), 0777)); }),
            "0");
  ASSERT_EQ(chmod(first_name.c_str(), 0777), 0);
  const std::string folder = expect_free_name();
  // What others put beside it is never taken for the victim's.
  const std::string false_name = first_name + "-000000";
  ASSERT_EQ(told_by_child([] { return become(attacker); },
                          [&] { return std::to_string(mkdir(false_name.c_str(), 0777)); }),
            "0");
  EXPECT_EQ(expect_free_name(), folder);
  fs::remove_all(first_name);
  fs::create_directory_symlink(folder, first_name);
  EXPECT_EQ(expect_free_name(), folder) << "a link is none";
  fs::remove_all(folder);
  fs::remove(first_name);
  fs::create_directory_symlink("/var/tmp", first_name);
  expect_free_name();
}

TEST_F(AnotherUsersFolder, IsNotSharedWithOthersOnceItWasOpen) {
  ASSERT_EQ(folder_of_victim(), first_name);
  ASSERT_EQ(chmod(first_name.c_str(), 0755), 0);
  EXPECT_TRUE(folder_of_victim().starts_with(first_name + "-"));
}

TEST_F(AnotherUsersFolder, IsFoundByRoot) {
  const std::string folder = folder_of_victim();
  EXPECT_EQ(folders_of(victim), std::vector{folder});
}

TEST(OwnFolder, IsInThePrivateRuntimeFolder) {
  TestFolder runtime;
  const Set variable("XDG_RUNTIME_DIR", runtime.path());
  EXPECT_EQ(own_folder(), runtime.path("vmart"));
  EXPECT_EQ(mode_of(runtime.path("vmart")), 0700U);
  EXPECT_EQ(folders_of(geteuid()).front(), runtime.path("vmart"));
  fs::remove(runtime.path("vmart"));
  ASSERT_EQ(chmod(runtime.path().c_str(), 0777), 0);  // Others could replace the folder.
  EXPECT_NE(own_folder(), runtime.path("vmart"));
  EXPECT_EQ(std::ranges::count(folders_of(geteuid()), runtime.path("vmart")), 0);
  ASSERT_EQ(chmod(runtime.path().c_str(), 0700), 0);
  const std::string deep = runtime.path(std::string(48 - runtime.path().size(), 'x'));
  ASSERT_TRUE(fs::create_directory(deep));
  const Set longer("XDG_RUNTIME_DIR", deep);
  EXPECT_FALSE(own_folder().starts_with(deep)) << "its sockets would have no valid addresses";
}

TEST(OwnFolder, IsSharedByContainersThoughTheirProcessesHaveTheSameId) {
  TestFolder runtime;
  const Set variable("XDG_RUNTIME_DIR", runtime.path());
  const auto name_in_container = [] {
    return told_by_child([] { return unshare(CLONE_NEWPID) == 0; },
                         [] {
                           return told_by_child([] { return getpid() == 1; },
                                                [] { return *control_path("1"); });
                         });
  };
  const std::string outside = *control_path("1");
  std::vector<std::string> names{outside, name_in_container(), name_in_container()};
  if (names[1] == "failed") GTEST_SKIP() << "no namespace can be made here";
  for (const std::string& name : {names[1], names[2]}) {
    const auto parsed = SocketName::parse(fs::path(name).filename().native());
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(parsed->process, 1);
    EXPECT_NE(parsed->pid_namespace, 0U);
  }
  // Both at once, each the first process of its namespace.
  const std::string second =
      told_by_child([] { return unshare(CLONE_NEWPID) == 0; },
                    [&] {
                      return told_by_child([] { return true; },
                                           [&] {
                                             const ControlSocket one(*control_path("1"));
                                             const std::string other = name_in_container();
                                             return other == one.path() ? "the same" : "another";
                                           });
                    });
  EXPECT_EQ(second, "another");
}

TEST(SocketName, IsReadAsItIsWritten) {
  for (const SocketName& name : {SocketName{4711, 0, ""}, SocketName{1, 4'026'532'567, ""},
                                 SocketName{4711, 0, "0123456789abcdef"},
                                 SocketName{1, 4'026'532'567, "0123456789abcdef-77"}}) {
    const auto read = SocketName::parse(name.text());
    ASSERT_TRUE(read) << name.text();
    EXPECT_EQ(read->process, name.process);
    EXPECT_EQ(read->pid_namespace, name.pid_namespace);
    EXPECT_EQ(read->key, name.key);
    EXPECT_EQ(name.stem() + ".sock", name.text());
  }
  EXPECT_EQ((SocketName{1, 4'026'532'567, "f0-7"}).text(), "1.4026532567-f0-7.sock");
  for (const char* other : {"", ".sock", "a.sock", "-1.sock", "0.sock", "7.", "7.sock.x",
                            "7.x.sock", "7-.sock", "7-g.sock", "7 .sock", "99999999999.sock"}) {
    EXPECT_FALSE(SocketName::parse(other)) << other;
  }
}

TEST(SocketName, IsNeverThatOfAnotherExport) {
  const auto path = [] { return SocketName::own(key_text(random_key("test"))).text(); };
  EXPECT_NE(path(), path());
}

TEST(OutOfReach, IsOnlyAPathThatOthersCannotChange) {
  TestFolder folder;  // Anyone may create it again in /tmp, once it was removed.
  EXPECT_FALSE(out_of_reach(folder.path(), geteuid()));
  EXPECT_FALSE(out_of_reach("/tmp", geteuid()));
  EXPECT_FALSE(out_of_reach("/does/not/exist", geteuid()));
  EXPECT_EQ(out_of_reach("/usr/../usr/lib/", geteuid()), "/usr/lib");
  if (geteuid() != 0) GTEST_SKIP() << "only root has a folder that it may write to for sure";
  const std::string own = std::string(getpwuid(0)->pw_dir) + "/.vmart-out-of-reach-test";
  fs::create_directory(own);
  EXPECT_EQ(out_of_reach(own, 0), own);
  fs::create_directory_symlink(folder.path(), own + "/link");
  EXPECT_FALSE(out_of_reach(own + "/link", 0)) << "what counts is where it leads";
  fs::create_directory_symlink(own, folder.path("link"));
  EXPECT_EQ(out_of_reach(folder.path("link"), 0), own) << "the path that is searched has no link";
  ASSERT_EQ(chmod(own.c_str(), 0775), 0);
  EXPECT_FALSE(out_of_reach(own, 0));
  ASSERT_EQ(chmod(own.c_str(), 0755), 0);
  EXPECT_TRUE(out_of_reach(own, victim)) << "root may change anything";
  ASSERT_EQ(chown(own.c_str(), attacker, attacker), 0);
  EXPECT_FALSE(out_of_reach(own, 0));
  fs::remove_all(own);
}

}  // namespace
}  // namespace vma
