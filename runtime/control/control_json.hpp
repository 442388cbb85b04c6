#pragma once

#include "control/control_target.hpp"

#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>

#include <string_view>

namespace vma {

/// Answers of the control socket as JSON. All names are part of the interface and documented in
/// `docs/guide/control.md`. Addresses are hexadecimal strings, since many readers keep only 53 bits
/// of a number; times are in seconds.
boost::json::object to_json(const ControlStatus& status);
boost::json::object to_json(const ControlAllocation& allocation);
boost::json::object to_json(const Extent& extent);
boost::json::object to_json(const ControlPrediction& prediction);
boost::json::object to_json(const ControlSelection& selection);
boost::json::object to_json(const ControlDecision& decision);
boost::json::object to_json(const ControlEvent& event);
boost::json::object to_json(const ControlStats& stats);

std::string_view to_string(ControlEvent::Kind kind) noexcept;

/// JSON requires UTF-8, but tags and reasons come from programs: in invalid text, each byte above
/// 127 is replaced by '?'.
boost::json::string to_json_text(std::string_view text);
/// Null for a number that is not finite, which JSON cannot represent.
boost::json::value to_json_number(double value);

}  // namespace vma
