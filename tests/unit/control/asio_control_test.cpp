// Goal: the control socket answers valid requests, and a misbehaving peer (too fast, too much,
// garbage, never reading) harms neither the runtime nor other peers. Method: a fake runtime behind
// a server whose event loop has a thread; peers on plain sockets.
#include "unit/control/asio_control_rig.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

constexpr std::string_view status_request = R"({"command":"status"})";

bool refused(const json::object& answer, std::string_view kind) {
  return answer.contains("error") && answer.at("error").at("kind").as_string() == kind;
}
bool refused(const std::string& line, std::string_view kind) {
  return !line.empty() && refused(json::parse(line).as_object(), kind);
}
/// Whether the server still answers another peer.
bool serves(const ControlRig& rig) {
  ControlPeer peer(rig.path());
  return peer.connected() && peer.ask(status_request).contains("ok");
}

TEST(AsioControl, AnswersRequestsInOrderAndGivesTheirIdsBack) {
  ControlRig rig;
  ControlPeer peer(rig.path());
  ASSERT_TRUE(
      peer.send("{\"command\":\"pause\",\"id\":1}\n{\"command\":\"status\",\"id\":\"b\"}\n"));
  EXPECT_EQ(peer.read_line(), R"({"id":1,"ok":{"paused":true}})");
  const json::object status = json::parse(peer.read_line()).as_object();
  EXPECT_EQ(status.at("id").as_string(), "b");
  EXPECT_TRUE(status.at("ok").at("paused").as_bool());
  EXPECT_EQ(status.at("ok").at("pid").as_int64(), getpid());
}

TEST(AsioControl, StartsMovesAndTellsTheirEndByEvents) {
  ControlRig rig;
  ControlPeer peer(rig.path());
  const json::object started =
      peer.ask(R"({"command":"migrate","tag":"weights","to":"gpu1"})").at("ok").as_object();
  EXPECT_EQ(rig.target().calls(), std::vector<std::string>{"move weights to gpu(1)"});
  const json::object found = peer.ask(R"({"command":"events","since":0})").at("ok").as_object();
  const json::object& event = found.at("events").at(0).as_object();
  EXPECT_EQ(event.at("operation"), started.at("operation"));
  EXPECT_EQ(event.at("kind").as_string(), "operation_done");
  EXPECT_EQ(found.at("next"), event.at("sequence"));
}

TEST(AsioControl, WaitsForTheRestOfALine) {
  ControlRig rig;
  ControlPeer peer(rig.path());
  for (const char character : status_request) ASSERT_TRUE(peer.send({&character, 1}));
  // This answer shows that the event loop has read the partial line.
  ControlPeer other(rig.path());
  EXPECT_TRUE(other.ask(status_request).contains("ok"));
  ASSERT_TRUE(peer.send("\n"));
  EXPECT_TRUE(json::parse(peer.read_line()).as_object().contains("ok"));
}

TEST(AsioControl, ForgetsAPartOfALineWhosePeerHangsUp) {
  ControlRig rig;
  {
    ControlPeer peer(rig.path());
    peer.send(R"({"command":"pa)");
    peer.end_of_requests();
    EXPECT_TRUE(peer.hangs_up());
  }
  EXPECT_TRUE(rig.target().calls().empty());
  EXPECT_TRUE(serves(rig));
}

TEST(AsioControl, AnswersALastRequestBehindWhichThePeerStopsSending) {
  ControlRig rig;
  ControlPeer peer(rig.path());
  ASSERT_TRUE(peer.send(std::string(status_request) + "\n"));
  peer.end_of_requests();
  EXPECT_TRUE(json::parse(peer.read_line()).as_object().contains("ok"));
  EXPECT_TRUE(peer.hangs_up());
}

TEST(AsioControl, RefusesALineOfOneMebibyteBeforeItHasReadIt) {
  ControlRig rig;
  ControlPeer peer(rig.path());
  const std::string start = R"({"command":"status","id":")";
  // No line end: only a limit can refuse it.
  peer.send(start + std::string(std::size_t{1} << 20, 'x'));
  EXPECT_TRUE(refused(peer.read_line(), "invalid_argument"));
  EXPECT_TRUE(peer.hangs_up());
  EXPECT_TRUE(serves(rig));
}

TEST(AsioControl, TakesALineOfExactlyTheBound) {
  ControlRig rig({.request_bytes_max = 100});
  ControlPeer peer(rig.path());
  std::string line(status_request);
  line += std::string(99 - line.size(), ' ');
  EXPECT_TRUE(peer.ask(line).contains("ok"));
  peer.send(line + " \n");
  EXPECT_TRUE(refused(peer.read_line(), "invalid_argument"));
}

TEST(AsioControl, ClosesAPeerThatSendsGarbageAgainAndAgain) {
  ControlRig rig({.bad_requests_max = 3});
  ControlPeer peer(rig.path());
  std::string garbage;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte != '\n') garbage += static_cast<char>(byte);
  }
  for (const std::string& line : {garbage, std::string("[1,2]"), std::string("{}")}) {
    EXPECT_TRUE(refused(peer.ask(line), "invalid_argument")) << line;
  }
  EXPECT_TRUE(peer.hangs_up());
  EXPECT_TRUE(serves(rig));
}

TEST(AsioControl, KeepsAPeerWhoseRequestsAreRefusedForWhatTheyAsk) {
  ControlRig rig({.bad_requests_max = 3});
  ControlPeer peer(rig.path());
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(refused(peer.ask(R"({"command":"where","address":"0x10"})"), "unknown_pointer"));
  }
  EXPECT_TRUE(peer.ask(status_request).contains("ok"));
}

TEST(AsioControl, ClosesAPeerThatAsksTooFast) {
  ControlRig rig({.requests_a_second = 1e-3, .requests_at_once = 5});
  ControlPeer peer(rig.path());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(peer.ask(status_request).contains("ok")) << i;
  EXPECT_TRUE(refused(peer.ask(status_request), "busy"));
  EXPECT_TRUE(peer.hangs_up());
  ControlPeer again(rig.path());
  EXPECT_TRUE(refused(again.ask(status_request), "busy")) << "it is the same process";
  // Another process is served.
  const pid_t child = fork();
  if (child == 0) {
    ControlPeer other(rig.path());
    _exit(other.ask(status_request).contains("ok") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(AsioControl, ServesAProcessAgainThatHasWaited) {
  ControlRig rig({.requests_a_second = 100, .requests_at_once = 2});
  ControlPeer peer(rig.path());
  while (peer.ask(status_request).contains("ok")) {
  }
  while (!serves(rig)) {  // Without end, and then the test's time limit, if it is never served.
  }
}

TEST(AsioControl, EndsAFloodOfTenThousandRequestsThatNobodyReadsTheAnswersOf) {
  // No rate limit, so that the limit on unread output is what ends the connection.
  ControlRig rig({.requests_a_second = 1e9,
                  .requests_at_once = 1e9,
                  .output_bytes_max = std::size_t{256} << 10});
  ControlPeer peer(rig.path());
  const std::string request = R"({"command":"where","address":"0x7f1000000000"})"
                              "\n";
  int sent = 0;
  while (sent < 10'000 && peer.send(request)) ++sent;
  EXPECT_LT(sent, 10'000) << "the server took it all";
  EXPECT_TRUE(peer.hangs_up());
  EXPECT_TRUE(serves(rig));
}

TEST(AsioControl, EndsAFloodByTheRateWithDefaultLimits) {
  ControlRig rig;
  ControlPeer peer(rig.path());
  std::string flood;
  for (int i = 0; i < 10'000; ++i) flood += "{\"command\":\"pause\"}\n";
  peer.send(flood);
  EXPECT_TRUE(peer.hangs_up());
  EXPECT_LT(rig.target().calls().size(), 10'000U);
  while (!serves(rig)) {  // It is the same process, which has to wait.
  }
}

TEST(AsioControl, ServesOthersWhileOneFloods) {
  ControlRig rig({.requests_a_second = 1e9, .requests_at_once = 1e9});
  ControlPeer flooding(rig.path());
  std::string flood;
  for (int i = 0; i < 2'000; ++i) flood += "{\"command\":\"pause\"}\n";
  std::size_t sent = 0;
  flooding.send_some(flood, sent);
  EXPECT_GT(sent, 0U);
  EXPECT_TRUE(serves(rig));
}

TEST(AsioControl, RefusesMoreConnectionsThanItsBoundAndTakesThemAgainLater) {
  ControlRig rig({.connections_max = 2});
  ControlPeer first(rig.path());
  auto second = std::make_unique<ControlPeer>(rig.path());
  EXPECT_TRUE(first.ask(status_request).contains("ok"));
  EXPECT_TRUE(second->ask(status_request).contains("ok"));
  {
    ControlPeer third(rig.path());
    EXPECT_TRUE(refused(third.read_line(), "busy"));
    EXPECT_TRUE(third.hangs_up());
  }
  second->end_of_requests();
  EXPECT_TRUE(second->hangs_up());
  EXPECT_TRUE(serves(rig));
}

TEST(AsioControl, HangsUpOnAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ControlRig rig;
  // As if somebody had opened the path to others: the mode no longer keeps them out.
  ASSERT_EQ(chmod(rig.folder().c_str(), 0755), 0);
  ASSERT_EQ(chmod(rig.path().c_str(), 0666), 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t nobody = 65'534;
    if (setgid(nobody) != 0 || setuid(nobody) != 0) _exit(3);
    ControlPeer peer(rig.path());
    if (!peer.connected()) _exit(2);
    peer.send("{\"command\":\"pause\"}\n");
    _exit(peer.read_line().empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "2: not connected, 1: it was answered";
  EXPECT_TRUE(rig.target().calls().empty());
  EXPECT_TRUE(serves(rig));
}

TEST(AsioControl, HangsUpOnAPeerThatIsSilentForTooLong) {
  ControlRig rig({.idle_limit = std::chrono::milliseconds(30)});
  ControlPeer peer(rig.path());
  EXPECT_TRUE(peer.hangs_up());
}

TEST(AsioControl, ClosesWithConnectionsOpenAndRemovesItsPath) {
  ControlRig rig;
  ControlPeer idle(rig.path()), asking(rig.path()), waiting(rig.path());
  EXPECT_TRUE(idle.ask(status_request).contains("ok"));
  waiting.send(R"({"command":)");
  std::string requests;
  for (int i = 0; i < 500; ++i)
    requests += "{\"command\":\"where\",\"address\":\"0x7f1000000000\"}\n";
  std::size_t sent = 0;
  asking.send_some(requests, sent);
  rig.close();
  EXPECT_TRUE(idle.hangs_up());
  EXPECT_TRUE(waiting.hangs_up());
  EXPECT_TRUE(asking.hangs_up());
  EXPECT_NE(access(rig.path().c_str(), F_OK), 0);
  EXPECT_FALSE(ControlPeer(rig.path()).connected());
}

TEST(AsioControl, GoesOnAfterAForkedChildHasDestroyedItsCopy) {
  // The child has no event loop; destroying its objects must not affect the parent's socket or
  // path.
  boost::asio::io_context context;
  FakeControlTarget target;
  TestFolder folder;
  auto server = std::make_unique<ControlServer>(context, target, folder.path("s"));
  const pid_t child = fork();
  if (child == 0) {
    server.reset();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ControlPeer peer(folder.path("s"));
  ASSERT_TRUE(peer.connected());
  ASSERT_TRUE(peer.send(std::string(status_request) + "\n"));
  std::thread loop([&] { context.run(); });
  const std::string line = peer.read_line();
  context.stop();
  loop.join();
  EXPECT_NE(line.find("\"ok\""), std::string::npos) << line;
}

TEST(AsioControl, OpensOnlyWhereItIsAskedToAndGoesOnWithoutWhereItCannot) {
  boost::asio::io_context context;
  FakeControlTarget target;
  TestFolder folder;
  EXPECT_EQ(open_control(context, target, nullptr), nullptr);
  EXPECT_EQ(open_control(context, target, "0"), nullptr);
  testing::internal::CaptureStderr();
  EXPECT_EQ(open_control(context, target, folder.path("none/s").c_str()), nullptr);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("no control socket"), std::string::npos);
  const auto server = open_control(context, target, folder.path("s").c_str());
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->path(), folder.path("s"));
}

}  // namespace
}  // namespace vma
