// Goal: clients that were written for the last release can talk to this runtime: it takes their
// requests, and its answers have the members that they read, with the same types. Method: the
// requests of tests/interfaces/control_protocol.json to a fake runtime. With
// VMART_TEST_RECORD_RELEASE=1 the file is written instead, from the requests below and the words of
// docs/guide/control.md.
#include "base/json.hpp"
#include "base/whole_file.hpp"
#include "control/control_json.hpp"
#include "control/control_protocol.hpp"
#include "unit/control/fake_control_target.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

const std::string document = VMART_CONTROL_DOCUMENT;
const std::string release_file =
    document.substr(0, document.rfind("docs/guide/")) + "tests/interfaces/control_protocol.json";

// Each kind of answer, and of refusal.
constexpr const char* requests[] = {
    R"({"command":"status","id":1})",
    R"({"command":"where","most":1})",
    R"({"command":"where","address":"0x7f1000000000","most":1})",
    R"({"command":"where","what":"all","most":1})",
    R"({"command":"migrate","tag":"a","to":"gpu1"})",
    R"({"command":"migrate","address":["0x7f0000000000",16],"what":"largest:2","to":"host0"})",
    R"({"command":"migrate","what":"all","to":"gpu1","dry_run":true})",
    R"({"command":"drain","at":"gpu0"})",
    R"({"command":"capacity","at":"gpu0","bytes":"2GiB"})",
    R"({"command":"capacity","at":"gpu0","bytes":4096})",
    R"({"command":"policy"})",
    R"({"command":"policy","set":"cost_benefit"})",
    R"({"command":"pause"})",
    R"({"command":"step"})",
    R"({"command":"resume"})",
    R"({"command":"explain","address":1,"most":8})",
    R"({"command":"events","since":0,"most":8})",
    R"({"command":"stats"})",
    R"({"command":"stats","format":"prometheus"})",
    R"({"command":"heal"})",
    R"({"command":"where","address":"0x10"})",
};

class ControlReleaseTest : public testing::Test {
 protected:
  ControlReleaseTest() { target_.add_full_event(); }

  json::object ask(std::string_view request) {
    return json::parse(answer_request(target_, request).line).as_object();
  }

  /// Members of the answer by their paths. Clients go by the kind of a refusal.
  json::object members_of(std::string_view request) {
    const json::object answer = ask(request);
    std::map<std::string, std::string> found = member_types(answer);
    if (answer.contains("error")) {
      found["error.kind"] = std::string(answer.at("error").at("kind").as_string());
    }
    json::object members;
    for (const auto& [path, type] : found) members[path] = type;
    return members;
  }

  bool takes(std::string_view command, std::string_view member) {
    // No member is a list of lists, so nothing is done.
    const json::object answer = ask(
        json::serialize(json::object{{"command", command}, {member, json::array{json::array{}}}}));
    const json::value* const error = answer.if_contains("error");
    return error == nullptr ||
           error->at("message").as_string().find("has no member") == json::string::npos;
  }

  /// What clients of the release would miss, one line each.
  std::vector<std::string> missing_for(const json::object& release) {
    std::vector<std::string> missing;
    for (const auto& [command, members] : release.at("commands").as_object()) {
      for (const json::value& member : members.as_array()) {
        if (!takes(command, member.as_string())) {
          missing.push_back(fmt::format("{} takes no {}", std::string_view(command),
                                        std::string_view(member.as_string())));
        }
      }
    }
    for (const auto& [request, before] : release.at("answers").as_object()) {
      const json::object now = members_of(request);
      for (const auto& [path, type] : before.as_object()) {
        const json::value* const found = now.if_contains(path);
        if (found != nullptr && *found == type) continue;
        missing.push_back(
            fmt::format("{}: {} was a {}, and is {}", std::string_view(request),
                        std::string_view(path), std::string_view(type.as_string()),
                        found == nullptr ? "missing" : std::string_view(found->as_string())));
      }
    }
    const json::array now = event_kinds();
    for (const json::value& kind : release.at("event_kinds").as_array()) {
      if (std::ranges::find(now, kind) == now.end()) missing.push_back(json::serialize(kind));
    }
    return missing;
  }

  static json::array event_kinds() {
    json::array kinds;
    for (int kind = 0;; ++kind) {
      const std::string_view name = to_string(static_cast<ControlEvent::Kind>(kind));
      if (name == "unknown") return kinds;
      kinds.push_back(json::string(name));
    }
  }

  json::object describe() {
    json::object commands, answers;
    for (const char* request : requests) {
      answers[request] = members_of(request);
      const std::string command(json::parse(request).at("command").as_string());
      if (commands.contains(command) || answers[request].as_object().contains("error")) continue;
      json::array members;
      for (const std::string& word : words_) {
        if (word != "command" && word != "id" && takes(command, word)) {
          members.push_back(json::string(word));
        }
      }
      commands[command] = std::move(members);
    }
    return {{"version", members_of_status("version")},
            {"commands", commands},
            {"answers", answers},
            {"event_kinds", event_kinds()}};
  }

  json::value members_of_status(std::string_view name) {
    return ask(R"({"command":"status"})").at("ok").at(name);
  }

  static std::set<std::string> words_in(const std::string& text) {
    std::set<std::string> words;
    const std::regex word("`([a-z_]+)`");
    for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at) {
      words.insert((*at)[1]);
    }
    return words;
  }

  FakeControlTarget target_;
  const std::set<std::string> words_ = words_in(read_file(document).value());
};

TEST_F(ControlReleaseTest, ClientsOfTheLastReleaseFindWhatTheyKnow) {
  if (std::getenv("VMART_TEST_RECORD_RELEASE") != nullptr) {
    std::ofstream(release_file) << readable_json(describe(), 120) << "\n";
  }
  const json::object release = json::parse(read_file(release_file).value()).as_object();
  EXPECT_EQ(release.at("commands").as_object().size(), 12U);
  EXPECT_EQ(release.at("commands").at("migrate").as_array().size(), 5U);
  for (const std::string& line : missing_for(release)) {
    ADD_FAILURE() << line << " (docs/reference/versions.md says what may change)";
  }
}

TEST_F(ControlReleaseTest, WhatAReleaseHadAndIsNoMoreIsFound) {
  json::object release = describe();
  EXPECT_TRUE(missing_for(release).empty());
  release["commands"].at("drain").as_array().push_back("colour");
  json::object& status = release["answers"].at(requests[0]).as_object();
  status["ok.colour"] = "string";
  status["ok.ticks"] = "string";
  release["answers"].at(R"({"command":"heal"})").as_object()["error.kind"] = "busy";
  release["answers"].as_object()[R"({"command":"fly"})"] = json::object{{"ok", "object"}};
  release["event_kinds"].as_array().push_back("flown");
  EXPECT_EQ(missing_for(release),
            (std::vector<std::string>{
                "drain takes no colour",
                R"({"command":"status","id":1}: ok.ticks was a string, and is number)",
                R"({"command":"status","id":1}: ok.colour was a string, and is missing)",
                R"({"command":"heal"}: error.kind was a busy, and is invalid_argument)",
                R"({"command":"fly"}: ok was a object, and is missing)", "\"flown\""}));
}

TEST_F(ControlReleaseTest, AdditionsPass) {
  json::object release = describe();
  release["commands"].as_object().erase("drain");
  release["answers"].at(requests[0]).as_object().erase("ok.ticks");
  release["answers"].as_object().erase(requests[1]);
  EXPECT_TRUE(missing_for(release).empty());
}

TEST_F(ControlReleaseTest, TheStatusSaysWhichVersionsItIsOf) {
  EXPECT_EQ(members_of_status("protocol").to_number<int>(), 1);
  const std::string version(members_of_status("version").as_string());
  EXPECT_TRUE(std::regex_match(version, std::regex("[0-9]+\\.[0-9]+\\.[0-9]+"))) << version;
}

}  // namespace
}  // namespace vma
