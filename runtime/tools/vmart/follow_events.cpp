#include "tools/vmart/control_commands.hpp"

#include "tools/vmart/control_text.hpp"

#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <poll.h>

#include <cstdio>
#include <utility>

namespace vma {

namespace json = boost::json;

json::array EventFollower::next() {
  json::object answer = client_.ask({{"command", "events"}, {"since", since_}});
  since_ = count_of(answer, "next");
  if (const auto lost = count_of(answer, "lost"); lost > 0) {
    fmt::print(stderr, "vmart: {} events were lost\n", lost);
  }
  json::array events = list_of(answer, "events");
  more_ = !events.empty();
  return events;
}

void EventFollower::wait() {
  constexpr int pause_ms = 200;
  if (!more_) poll(nullptr, 0, pause_ms);
}

int run_events(const ControlChoice& choice, const EventsCommand& command) {
  ControlClient client(choice);
  EventFollower follower(client, command.since);
  json::array all;
  for (;;) {
    const json::array events = follower.next();
    for (const json::value& event : events) {
      if (!command.json) {
        fmt::print("{}\n", event_line(object_of(event)));
      } else if (command.follow) {
        print_json(event);
      } else {
        all.push_back(event);
      }
    }
    std::fflush(stdout);
    if (events.empty() && !command.follow) break;
    follower.wait();
  }
  if (command.json) print_json(json::object{{"events", std::move(all)}});
  return 0;
}

}  // namespace vma
