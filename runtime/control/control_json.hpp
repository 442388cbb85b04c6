#pragma once

#include "control/control_target.hpp"

#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>

#include <string_view>

namespace vma {

/// Answers of the control socket as JSON. `docs/guide/control.md` documents every name here: they
/// are an interface. Addresses are strings in hexadecimal, since many readers keep 53 bits of a
/// number; times are seconds.
boost::json::object to_json(const ControlStatus& status);
boost::json::object to_json(const ControlAllocation& allocation);
boost::json::object to_json(const Extent& extent);
boost::json::object to_json(const ControlPrediction& prediction);
boost::json::object to_json(const ControlDecision& decision);
boost::json::object to_json(const ControlEvent& event);
boost::json::object to_json(const ControlStats& stats);

std::string_view to_string(ControlEvent::Kind kind) noexcept;

/// JSON is UTF-8, but programs write tags and reasons: in invalid text each byte above 127 is
/// replaced by '?'.
boost::json::string to_json_text(std::string_view text);
/// JSON cannot express numbers that are not finite: null.
boost::json::value to_json_number(double value);

}  // namespace vma
