// Goal: the names documented in docs/guide/control.md stay stable, every refusal is an answer with
// its error kind, and malformed requests have no other effect. Method: requests as text to a fake
// runtime, without a socket.
#include "control/control_protocol.hpp"

#include "control/control_json.hpp"
#include "unit/control/fake_control_target.hpp"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

namespace vma {
namespace {

namespace json = boost::json;

class ControlProtocolTest : public testing::Test {
 protected:
  json::object ask(std::string_view request) {
    const ControlAnswer answer = answer_request(target_, request);
    garbage_ = answer.garbage;
    EXPECT_EQ(answer.line.find('\n'), answer.line.size() - 1) << "one line an answer";
    return json::parse(answer.line).as_object();
  }
  json::object ok(std::string_view request) {
    const json::object answer = ask(request);
    EXPECT_TRUE(answer.contains("ok")) << json::serialize(answer);
    return answer.contains("ok") ? answer.at("ok").as_object() : json::object();
  }
  std::string kind_of_refusal(std::string_view request) {
    const json::object answer = ask(request);
    EXPECT_FALSE(answer.contains("ok")) << request;
    const json::object& error = answer.at("error").as_object();
    EXPECT_FALSE(error.at("message").as_string().empty());
    return std::string(error.at("kind").as_string());
  }

  FakeControlTarget target_;
  bool garbage_ = false;
};

TEST_F(ControlProtocolTest, EveryNameInAnswersIsDocumented) {
  target_.add_full_event();
  std::set<std::string> names;
  for (const char* request :
       {R"({"command":"status","id":1})", R"({"command":"where"})",
        R"({"command":"where","most":1})", R"({"command":"where","address":"0x7f0000000000"})",
        R"({"command":"policy"})", R"({"command":"migrate","tag":"a","to":"gpu1","dry_run":true})",
        R"({"command":"migrate","tag":"a","to":"gpu1"})", R"({"command":"pause"})",
        R"({"command":"where","what":"all"})", R"({"command":"explain","address":1})",
        R"({"command":"events"})", R"({"command":"stats"})",
        R"({"command":"stats","format":"prometheus"})", R"({"command":"heal"})"}) {
    for (const auto& [path, type] : member_types(ask(request))) {
      if (!path.ends_with("[]")) names.insert(path.substr(path.rfind('.') + 1));
    }
  }
  EXPECT_GT(names.size(), 60U);
  std::ifstream file(VMART_CONTROL_DOCUMENT);
  std::stringstream document;
  document << file.rdbuf();
  for (const std::string& name : names) {
    EXPECT_NE(document.str().find("`" + name + "`"), std::string::npos) << name;
  }
}

TEST_F(ControlProtocolTest, ListsAllocationsPageByPage) {
  const json::object first = ok(R"({"command":"where","most":1})");
  ASSERT_EQ(first.at("allocations").as_array().size(), 1U);
  EXPECT_EQ(first.at("allocations").at(0).at("tag").as_string(), "a \"tag\"\n");
  const std::string next = json::serialize(first.at("more_from"));
  const json::object second = ok(R"({"command":"where","from":)" + next + "}");
  ASSERT_EQ(second.at("allocations").as_array().size(), 1U);
  EXPECT_EQ(second.at("allocations").at(0).at("address").as_string(), "0x7f1000000000");
  EXPECT_FALSE(second.contains("more_from"));
}

TEST_F(ControlProtocolTest, BoundsTheExtentsOfOneAnswerAndTellsWhereToGoOn) {
  std::size_t from = 0, seen = 0;
  for (int pages = 0; pages < 4; ++pages) {
    const json::object page =
        ok(R"({"command":"where","address":"0x7f1000000000","most":100000,"from":)" +
           std::to_string(from) + "}");
    EXPECT_LE(page.at("extents").as_array().size(), control_page_max);
    for (const json::value& extent : page.at("extents").as_array()) {
      EXPECT_EQ(extent.at("generation").to_number<std::size_t>(), seen++);
    }
    if (!page.contains("more_from")) break;
    from = page.at("more_from").to_number<std::size_t>();
  }
  EXPECT_EQ(seen, FakeControlTarget::many_extents);
}

TEST_F(ControlProtocolTest, PredictsWithoutMoving) {
  const json::object answer =
      ok(R"({"command":"migrate","address":"0x7f0000000000","to":"gpu1","dry_run":true})");
  EXPECT_EQ(answer.at("prediction").at("took_s").as_double(), 0.02);
  EXPECT_TRUE(target_.calls().empty());
  ok(R"({"command":"migrate","address":139637976727552,"to":"gpu1"})");
  ok(R"({"command":"drain","at":"gpu0"})");
  EXPECT_EQ(target_.calls(),
            (std::vector<std::string>{"move 0x7f0000000000 to gpu(1)", "drain gpu(0)"}));
}

TEST_F(ControlProtocolTest, TakesACapacityAsANumberOrAText) {
  ok(R"({"command":"capacity","at":"gpu0","bytes":4096})");
  ok(R"({"command":"capacity","at":"gpu1","bytes":"2GiB"})");
  ok(R"({"command":"capacity","at":"host0","bytes":"none"})");
  EXPECT_EQ(target_.calls(),
            (std::vector<std::string>{"capacity gpu(0) 4096", "capacity gpu(1) 2147483648",
                                      "capacity host(0) 18446744073709551615"}));
}

TEST_F(ControlProtocolTest, MovesSeveralAllocationsWithOneRequest) {
  ok(R"({"command":"migrate","tag":["a","b"],"to":"gpu1"})");
  ok(R"({"command":"migrate","address":["0x7f0000000000",16],"tag":"a","to":"host0"})");
  EXPECT_EQ(target_.calls(), (std::vector<std::string>{"move a b to gpu(1)",
                                                       "move 0x7f0000000000 0x10 a to host(0)"}));
}

TEST_F(ControlProtocolTest, TakesSelectorsBesideAddressesAndTags) {
  ok(R"({"command":"migrate","what":"largest:2","to":"gpu1"})");
  ok(R"({"command":"migrate","what":["at:gpu0","0x10","x"],"tag":"a","address":7,"to":"host0"})");
  EXPECT_EQ(target_.calls(), (std::vector<std::string>{"move largest:2 to gpu(1)",
                                                       "move 0x7 a at:gpu0 0x10 x to host(0)"}));
}

TEST_F(ControlProtocolTest, ATagIsATagWhateverItLooksLike) {
  ok(R"({"command":"migrate","tag":["all","42"],"to":"gpu1"})");
  ASSERT_EQ(target_.last_move().size(), 2U);
  for (const Selector& selector : target_.last_move()) {
    EXPECT_EQ(selector.kind, Selector::Kind::tag) << selector.text;
  }
}

TEST_F(ControlProtocolTest, NamesWhatAMoveSelected) {
  for (const char* request : {R"({"command":"migrate","what":"all","to":"gpu1"})",
                              R"({"command":"migrate","what":"all","to":"gpu1","dry_run":true})"}) {
    const json::object selected = ok(request).at("selected").as_object();
    EXPECT_EQ(selected.at("count").to_number<int>(), 12);
    EXPECT_EQ(selected.at("bytes").to_number<int>(), 48 << 20);
    EXPECT_EQ(selected.at("first").at(1).at("address").as_string(), "0x7f0000400000");
    EXPECT_EQ(selected.at("first").at(1).at("tag").as_string(), "some");
  }
}

TEST_F(ControlProtocolTest, ListsWhatASelectorSelectsPageByPage) {
  const json::object whole = ok(R"({"command":"where","what":["at:host0","many"]})");
  EXPECT_EQ(whole.at("allocations").as_array().size(), 2U);
  EXPECT_FALSE(whole.contains("more_from"));
  const json::object first = ok(R"({"command":"where","what":"all","most":1})");
  ASSERT_EQ(first.at("allocations").as_array().size(), 1U);
  EXPECT_EQ(first.at("selected").at("count").to_number<int>(), 2);
  const std::string next = json::serialize(first.at("more_from"));
  const json::object last = ok(R"({"command":"where","what":"all","most":1,"from":)" + next + "}");
  ASSERT_EQ(last.at("allocations").as_array().size(), 1U);
  EXPECT_EQ(last.at("allocations").at(0).at("tag").as_string(), "many");
  EXPECT_EQ(last.at("selected").at("count").to_number<int>(), 2);
  EXPECT_FALSE(last.contains("more_from"));
}

TEST_F(ControlProtocolTest, SetsThePolicyAndPausesAndSteps) {
  EXPECT_EQ(ok(R"({"command":"policy","set":"cost_benefit"})").at("policy").as_string(),
            "cost_benefit");
  EXPECT_EQ(kind_of_refusal(R"({"command":"policy","set":"magic"})"), "invalid_argument");
  EXPECT_EQ(kind_of_refusal(R"({"command":"step"})"), "invalid_argument");
  ok(R"({"command":"pause"})");
  ok(R"({"command":"step"})");
  ok(R"({"command":"resume"})");
  EXPECT_EQ(target_.calls(), (std::vector<std::string>{"pause", "step", "resume"}));
}

TEST_F(ControlProtocolTest, RefusesWhatIsNoSuchRequest) {
  for (const char* request : {R"({"command":"heal"})",
                              R"({"command":7})",
                              R"({"command":"status","colour":1})",
                              R"({"command":"migrate","to":"gpu1"})",
                              R"({"command":"migrate","tag":"a"})",
                              R"({"command":"migrate","tag":[],"to":"gpu1"})",
                              R"({"command":"migrate","tag":["a",7],"to":"gpu1"})",
                              R"({"command":"migrate","tag":[["a"]],"to":"gpu1"})",
                              R"({"command":"migrate","tag":["a",""],"to":"gpu1"})",
                              R"({"command":"migrate","address":["0x1","one"],"to":"gpu1"})",
                              R"({"command":"migrate","what":[],"to":"gpu1"})",
                              R"({"command":"migrate","what":["all",""],"to":"gpu1"})",
                              R"({"command":"migrate","what":7,"to":"gpu1"})",
                              R"({"command":"where","what":[]})",
                              R"({"command":"where","what":""})",
                              R"({"command":"where","what":"none"})",
                              R"({"command":"where","what":"all","address":"0x7f0000000000"})",
                              R"({"command":"where","tag":"many"})",
                              R"({"command":"migrate","tag":"a","to":"mars"})",
                              R"({"command":"drain","at":7})",
                              R"({"command":"capacity","at":"gpu0"})",
                              R"({"command":"capacity","bytes":"2GiB"})",
                              R"({"command":"capacity","at":"gpu0","bytes":"much"})",
                              R"({"command":"capacity","at":"gpu0","bytes":-1})",
                              R"({"command":"migrate","tag":"a","to":"gpu1","dry_run":"yes"})",
                              R"({"command":"explain"})",
                              R"({"command":"explain","address":"0x"})",
                              R"({"command":"explain","address":"7f00"})",
                              R"({"command":"explain","address":-1})",
                              R"({"command":"explain","address":1.5})",
                              R"({"command":"explain","address":"0x1ffffffffffffffff"})",
                              R"({"command":"stats","format":"xml"})",
                              R"({"command":"events","since":"all"})"}) {
    EXPECT_EQ(kind_of_refusal(request), "invalid_argument") << request;
    EXPECT_FALSE(garbage_) << request;
  }
  EXPECT_EQ(kind_of_refusal(R"({"command":"where","address":"0x10"})"), "unknown_pointer");
  EXPECT_TRUE(target_.calls().empty());
}

TEST_F(ControlProtocolTest, CallsWhatNamesNoCommandGarbage) {
  const std::string deep = std::string(5'000, '[') + std::string(5'000, ']');
  for (const std::string& request :
       {std::string(), std::string("x"), std::string("{}"), std::string("[]"), std::string("null"),
        std::string("{\"command\":\"status\""), std::string("{\"command\":\"status\"}{}"), deep,
        std::string("{\"command\":\"\xff\xfe\"}"), std::string("\0\1\2", 3)}) {
    EXPECT_EQ(kind_of_refusal(request), "invalid_argument") << request;
    EXPECT_TRUE(garbage_) << request;
  }
}

TEST_F(ControlProtocolTest, AnswersWhateverTheTargetThrows) {
  const auto dry = [](const std::string& tag) {
    return R"({"command":"migrate","dry_run":true,"to":"gpu1","id":4,"tag":")" + tag + "\"}";
  };
  EXPECT_EQ(kind_of_refusal(dry("throws")), "internal");
  EXPECT_EQ(kind_of_refusal(dry("no memory")), "out_of_memory");
  EXPECT_EQ(kind_of_refusal(dry("strange")), "internal");
  EXPECT_EQ(ask(dry("throws")).at("id").as_int64(), 4);
}

TEST_F(ControlProtocolTest, SurvivesMutatedRequests) {
  const std::string valid =
      R"({"command":"migrate","address":"0x7f0000000000","to":"gpu1","dry_run":true,"id":[1]})";
  std::mt19937 random(20'240'101);  // A fixed seed, so that failures replay.
  for (int round = 0; round < 20'000; ++round) {
    std::string request = valid;
    for (int change = 0; change < 3; ++change) {
      request[random() % request.size()] = static_cast<char>(random() % 256);
    }
    if (request.find('\n') != std::string::npos) continue;
    const json::object answer = ask(request);
    ASSERT_NE(answer.contains("ok"), answer.contains("error")) << request;
  }
}

TEST_F(ControlProtocolTest, WritesValidJsonWhateverBytesATextHas) {
  ControlEvent event;
  for (const char* text : {"\xff\xfe", "\xc3\x28", "caf\xc3\xa9", "\xed\xa0\x80", "\xe2\x82"}) {
    event.text = text;
    target_.ring().add(event);
  }
  const json::object answer = ok(R"({"command":"events"})");
  const json::array& events = answer.at("events").as_array();
  EXPECT_EQ(events.at(0).at("text").as_string(), "??");
  EXPECT_EQ(events.at(1).at("text").as_string(), "?(");
  EXPECT_EQ(events.at(2).at("text").as_string(), "caf\xc3\xa9");
  EXPECT_EQ(events.at(3).at("text").as_string(), "???");
  EXPECT_EQ(events.at(4).at("text").as_string(), "??");
}

TEST_F(ControlProtocolTest, LeavesOutACapacityThatNobodyKnows) {
  ControlStatus status;
  status.places = {{host(0), UINT64_MAX, 1}, {gpu(0), 0, 1}};
  const json::object written = to_json(status);
  const json::array& places = written.at("places").as_array();
  EXPECT_FALSE(places[0].as_object().contains("capacity_bytes"));
  EXPECT_EQ(places[1].at("capacity_bytes").to_number<int>(), 0);
}

}  // namespace
}  // namespace vma
