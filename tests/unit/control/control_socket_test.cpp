// Goal: only the user (and root) can reach a runtime through its socket; existing files at the path
// are never destroyed by mistake; every failure has its Error. Method: sockets in a temporary
// folder; when run as root, a child process that switches to another user.
#include "control/control_socket.hpp"

#include "control/own_folder.hpp"
#include "unit/control/control_peer.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace vma {
namespace {

constexpr uid_t nobody = 65'534;

/// The error from opening a socket at `path`.
std::optional<Error> refusal(const std::string& path) {
  try {
    const ControlSocket socket(path);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}
void expect_refused(const std::string& path, ErrorKind kind, const std::string& word) {
  const std::optional<Error> error = refusal(path);
  ASSERT_TRUE(error) << path;
  EXPECT_EQ(error->kind(), kind) << error->what();
  EXPECT_NE(std::string(error->what()).find(word), std::string::npos) << error->what();
}

/// Leaves a socket file whose process is gone.
void leave_stale(const std::string& path) {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(descriptor, 1), 0);
  close(descriptor);
}

/// The exit status of a child process that runs `body`.
template <typename Body>
int status_of_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

TEST(ControlSocket, IsOnlyTheUsersWhateverTheUmask) {
  TestFolder folder;
  for (const mode_t mask : {0, 022, 077}) {
    const mode_t before = umask(mask);
    const ControlSocket socket(folder.path("s"));
    umask(before);
    EXPECT_EQ(mode_of(folder.path("s")), 0600U);
  }
}

TEST(ControlSocket, LeavesNothingBehind) {
  TestFolder folder;
  { const ControlSocket socket(folder.path("s")); }
  refusal(std::string(folder.path("none/s")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ControlSocket, LetsTheSameUserAndRootIn) {
  EXPECT_TRUE(may_control({1, 1000, 1000}, 1000));
  EXPECT_TRUE(may_control({1, 0, 0}, 1000));
  EXPECT_FALSE(may_control({1, 1001, 1000}, 1000));  // The group does not matter.
  EXPECT_FALSE(may_control({1, 1000, 1000}, 0));
  EXPECT_FALSE(may_control({0, static_cast<uid_t>(-1), 0}, 1000));
}

TEST(ControlSocket, SeesThatAPeerIsAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  TestFolder folder;
  ControlSocket listening(folder.path("s"));
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  const auto connects_as_nobody = [&] {
    return status_of_child([&] {
      if (setgid(nobody) != 0 || setuid(nobody) != 0) return 3;
      return ControlPeer(folder.path("s")).connected() ? 1 : 0;
    });
  };
  EXPECT_EQ(connects_as_nobody(), 0) << "mode 0600 keeps others out";
  ASSERT_EQ(chmod(folder.path("s").c_str(), 0666), 0);  // As if somebody had opened it to others.
  EXPECT_EQ(connects_as_nobody(), 1);
  const int descriptor = listening.release();
  const int peer = accept(descriptor, nullptr, nullptr);
  ASSERT_GE(peer, 0);
  const std::optional<ucred> who = peer_of(peer);
  ASSERT_TRUE(who);
  EXPECT_EQ(who->uid, nobody);
  EXPECT_FALSE(may_control(*who, geteuid()));
  close(peer);
  close(descriptor);
}

TEST(ControlSocket, ReplacesTheFileOfADeadProcess) {
  TestFolder folder;
  leave_stale(folder.path("s"));
  const ControlSocket socket(folder.path("s"));
  EXPECT_TRUE(ControlPeer(folder.path("s")).connected());
  EXPECT_EQ(mode_of(folder.path("s")), 0600U);
}

TEST(ControlSocket, ReplacesTheSocketThatOnlyAForkedChildOfADeadProcessHolds) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {  // The other one is that of exports.
    TestFolder folder;
    int until[2];
    ASSERT_EQ(pipe(until), 0);
    // The middle process listens, leaves behind a child with its descriptor, and exits.
    ASSERT_EQ(status_of_child([&] {
                new ControlSocket(folder.path("s"), {.type = type});
                if (fork() == 0) {
                  close(until[1]);
                  char byte = 0;
                  // Blocks until the test closes the pipe.
                  _exit(static_cast<int>(read(until[0], &byte, 1)));
                }
                return 0;
              }),
              0);
    close(until[0]);
    EXPECT_EQ(ControlPeer(folder.path("s")).connected(), type == SOCK_STREAM);
    EXPECT_FALSE(refusal(folder.path("s")));
    close(until[1]);
  }
}

TEST(ControlSocket, SweepsWhatDeadProcessesLeft) {
  TestFolder runtime;
  const Set variable("XDG_RUNTIME_DIR", runtime.path());
  const std::string own = own_folder();
  for (const char* name : {"1.sock", "99.sock", "1.4026532567.sock", "vmart-1.sock", "a.sock"}) {
    leave_stale(own + "/" + name);
  }
  const ControlSocket living(own + "/2.sock");
  const ControlSocket socket(own + "/3.sock");
  for (const char* name : {"1.sock", "99.sock", "1.4026532567.sock"}) {
    EXPECT_FALSE(std::filesystem::exists(own + "/" + name)) << name;
  }
  // Nobody listens there either, but the runtime generates no such names.
  for (const char* name : {"vmart-1.sock", "a.sock", "2.sock"}) {
    EXPECT_TRUE(std::filesystem::exists(own + "/" + name)) << name;
  }
  TestFolder elsewhere;
  leave_stale(elsewhere.path("1.sock"));
  const ControlSocket beside(elsewhere.path("3.sock"));
  EXPECT_TRUE(std::filesystem::exists(elsewhere.path("1.sock"))) << "of nobody knows whom";
}

TEST(ControlSocket, SweepsAFolderOnceForMany) {
  TestFolder runtime;
  const Set variable("XDG_RUNTIME_DIR", runtime.path());
  const std::string own = own_folder();
  const SocketTerms terms{.sweeps_once = true};
  leave_stale(own + "/1.sock");
  const ControlSocket first(own + "/a", terms);
  EXPECT_FALSE(std::filesystem::exists(own + "/1.sock"));
  leave_stale(own + "/1.sock");
  const ControlSocket second(own + "/b", terms);
  EXPECT_TRUE(std::filesystem::exists(own + "/1.sock"));
  const ControlSocket third(own + "/c");
  EXPECT_FALSE(std::filesystem::exists(own + "/1.sock"));
}

TEST(ControlSocket, LeavesTheExportsOfProcessesThatLive) {
  const std::string own = own_folder();
  const auto export_of = [&](int process, std::uint32_t pid_namespace) {
    return own + "/" + SocketName{process, pid_namespace, "77"}.text();
  };
  const std::uint32_t here = SocketName::own().pid_namespace;
  const std::string of_live = export_of(getpid(), here);
  const std::string of_dead = export_of(INT_MAX, here);
  const std::string of_other = export_of(getpid(), here + 1);  // Its number means nothing here.
  for (const std::string& path : {of_live, of_dead, of_other}) leave_stale(path);
  // Another process that holds the folder locked sweeps itself.
  while (std::filesystem::exists(of_dead)) {
    const ControlSocket socket(of_live + ".beside");
  }
  EXPECT_TRUE(std::filesystem::exists(of_live));
  EXPECT_FALSE(std::filesystem::exists(of_other));
  unlink(of_live.c_str());
}

TEST(ControlSocket, RefusesAPathWhereSomebodyListens) {
  TestFolder folder;
  const ControlSocket socket(folder.path("s"));
  expect_refused(folder.path("s"), ErrorKind::busy, folder.path("s"));
  EXPECT_TRUE(ControlPeer(folder.path("s")).connected());
}

TEST(ControlSocket, DestroysNothingThatIsNoSocket) {
  TestFolder folder;
  std::ofstream(folder.path("s")) << "precious";
  expect_refused(folder.path("s"), ErrorKind::invalid_argument, "not a socket");
  std::string text;
  std::ifstream(folder.path("s")) >> text;
  EXPECT_EQ(text, "precious");
}

TEST(ControlSocket, LeavesAPathThatShowsAnotherSocketByNow) {
  TestFolder folder;
  auto first = std::make_unique<ControlSocket>(folder.path("s"));
  ASSERT_EQ(unlink(folder.path("s").c_str()), 0);
  const ControlSocket second(folder.path("s"));
  first.reset();
  EXPECT_TRUE(ControlPeer(folder.path("s")).connected());
}

TEST(ControlSocket, LeavesThePathToTheParentOfAForkedChild) {
  TestFolder folder;
  auto socket = std::make_unique<ControlSocket>(folder.path("s"));
  status_of_child([&] {
    socket.reset();
    return 0;
  });
  EXPECT_TRUE(ControlPeer(folder.path("s")).connected());
}

TEST(ControlSocket, RefusesPathsThatCannotBe) {
  TestFolder folder;
  expect_refused(folder.path(std::string(200, 'x')), ErrorKind::invalid_argument, "at most");
  expect_refused("@vmart", ErrorKind::invalid_argument, "abstract");
  expect_refused(std::string("\0vmart", 6), ErrorKind::invalid_argument, "abstract");
  expect_refused(folder.path("none/s"), ErrorKind::invalid_argument, "No such file");
  expect_refused(folder.path() + "/", ErrorKind::invalid_argument, "not a file name");
  EXPECT_FALSE(refusal(folder.path(std::string(107 - folder.path().size() - 1, 'x'))));
}

TEST(ControlSocket, RefusesADirectoryThatCannotBeWritten) {
  TestFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0555), 0);
  const int status = status_of_child([&] {
    if (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0)) return 3;
    const auto error = refusal(folder.path("s"));
    return error && error->kind() == ErrorKind::invalid_argument ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(ControlSocket, RefusesAFolderWhereOthersCouldReplaceIt) {
  TestFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  expect_refused(folder.path("s"), ErrorKind::invalid_argument, "mode 0777");
  ASSERT_EQ(chmod(folder.path().c_str(), 01777), 0);  // Like /tmp.
  EXPECT_FALSE(refusal(folder.path("s")));
  ASSERT_EQ(chmod(folder.path().c_str(), 0770), 0);  // Of a project, whose members are named.
  EXPECT_FALSE(refusal(folder.path("s")));
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(chown(folder.path().c_str(), nobody, nobody), 0);
  expect_refused(folder.path("s"), ErrorKind::invalid_argument, "belongs to user 65534");
}

/// Another user, of the group of a folder, that changes each name of a private folder that appears
/// there. Both run on one processor, so that it runs between any two calls.
class Attacker {
 public:
  /// `change` gets the path of the name.
  template <typename Change>
  Attacker(const std::string& folder, Change&& change) {
    EXPECT_EQ(chown(folder.c_str(), 0, nobody), 0);
    EXPECT_EQ(chmod(folder.c_str(), 0770), 0);
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    EXPECT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    child_ = fork();
    if (child_ == 0) {
      if (setgroups(0, nullptr) != 0 || setgid(nobody) != 0 || setuid(nobody) != 0) _exit(3);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int events = inotify_init1(0);
      if (inotify_add_watch(events, folder.c_str(), IN_CREATE) < 0) _exit(1);
      if (write(ready[1], "r", 1) != 1) _exit(1);
      for (;;) watch(events, folder, change);
    }
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  ~Attacker() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    sched_setaffinity(0, sizeof before_, &before_);
  }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

 private:
  template <typename Change>
  static void watch(int events, const std::string& folder, Change& change) {
    alignas(inotify_event) char bytes[65'536];
    const ssize_t count = read(events, bytes, sizeof bytes);
    for (ssize_t at = 0; at < count;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(bytes + at);
      at += static_cast<ssize_t>(sizeof *event + event->len);
      const std::string name = event->len > 0 ? event->name : "";
      if (name.find(".sock.") != std::string::npos) change(folder + "/" + name);
    }
  }

  cpu_set_t before_;
  pid_t child_ = -1;
};

/// Opens and closes a socket for other users in the folder, which an attacker may disturb.
void open_disturbed(const std::string& folder) {
  try {
    const ControlSocket socket(folder + "/x.sock", {.type = SOCK_SEQPACKET, .mode = 0666});
  } catch (const Error&) {
  }
}

TEST(ControlSocket, GivesNoOtherFileItsModeThoughAnotherUserReplacesNames) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  TestFolder folder, home;
  const std::string secret = home.path("secret"), link = folder.path("link");
  std::ofstream(secret) << "secret";
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  const Attacker attacker(folder.path(), [&](const std::string& path) {
    unlink(link.c_str());
    if (symlink(secret.c_str(), link.c_str()) == 0) rename(link.c_str(), path.c_str());
  });
  for (int i = 0; i < 500 && mode_of(secret) == 0600; ++i) open_disturbed(folder.path());
  EXPECT_EQ(mode_of(secret), 0600U);
}

TEST(ControlSocket, RemovesNoOtherFileThoughAnotherUserRenamesFolders) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  TestFolder folder;
  const std::string own = folder.path("own"), moved_out = folder.path("moved");
  ASSERT_TRUE(std::filesystem::create_directory(own));
  ASSERT_EQ(chmod(own.c_str(), 0700), 0);
  // Wherever the attacker moves it.
  const int precious = open((own + "/s").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  const auto names_left = [&] {
    struct stat status {};
    EXPECT_EQ(fstat(precious, &status), 0);
    return status.st_nlink;
  };
  const Attacker attacker(folder.path(), [&](const std::string& path) {
    rename(path.c_str(), moved_out.c_str());
    rename(own.c_str(), path.c_str());
  });
  for (int i = 0; i < 500; ++i) {
    open_disturbed(folder.path());
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (entry.path() == own) continue;
      if (std::filesystem::exists(entry.path() / "s")) rename(entry.path().c_str(), own.c_str());
    }
    ASSERT_EQ(names_left(), 1U) << "after " << i << " sockets";
  }
  close(precious);
}

TEST(ControlSocket, NeedsNoProc) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can change the root folder";
  TestFolder root;
  const auto child_in_it = [&](const auto& body) {
    return status_of_child([&] {
      if (chroot(root.path().c_str()) != 0 || chdir("/") != 0) return 3;
      return body();
    });
  };
  EXPECT_EQ(child_in_it([] {
              try {
                const ControlSocket socket("/s", {.mode = 0666});
                return ControlPeer("/s").connected() && mode_of("/s") == 0666 ? 0 : 1;
              } catch (const Error&) {
                return 2;
              }
            }),
            0);
  EXPECT_EQ(child_in_it([] {
              const auto error = refusal("/" + std::string(105, 'x'));
              const std::string text = error ? error->what() : "";
              return text.find("at most 98 bytes; mount /proc") != std::string::npos ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(std::filesystem::is_empty(root.path()));
}

TEST(ControlSocket, HasTheModeForOtherUsersWhateverTheUmask) {
  TestFolder folder;
  const mode_t before = umask(077);
  const ControlSocket socket(folder.path("s"), {.mode = 0666});
  umask(before);
  EXPECT_EQ(mode_of(folder.path("s")), 0666U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(ControlPath, IsWhatTheVariableSays) {
  TestFolder folder;
  for (const char* none : {"", "0", "off", "no"}) {
    EXPECT_FALSE(control_path(none));
    EXPECT_FALSE(opens_control(none));
  }
  EXPECT_FALSE(control_path(nullptr));
  EXPECT_EQ(control_path("/some/where"), "/some/where");
  EXPECT_EQ(control_path("./here"), "./here");
  EXPECT_TRUE(opens_control("./here"));
  EXPECT_THROW(control_path("ture"), Error);
  EXPECT_THROW(opens_control("ture"), Error);
  const Set variable("XDG_RUNTIME_DIR", folder.path());
  for (const char* yes : {"1", "auto", "yes"}) {
    EXPECT_EQ(control_path(yes), folder.path("vmart/") + SocketName::own().text());
    EXPECT_TRUE(opens_control(yes));
  }
}

}  // namespace
}  // namespace vma
