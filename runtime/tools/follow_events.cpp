#include "tools/follow_events.hpp"

#include "tools/control_text.hpp"

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

int run_events(const ControlChoice& choice, bool follow) {
  ControlClient client(choice);
  EventFollower follower(client, 0);
  for (;;) {
    const json::array events = follower.next();
    for (const json::value& event : events) fmt::print("{}\n", event_line(event.as_object()));
    std::fflush(stdout);
    if (events.empty() && !follow) return 0;
    follower.wait();
  }
}

}  // namespace vma
