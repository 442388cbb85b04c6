#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace vma {

// Members of an answer; what is missing or of another type reads as zero or nothing, so that a
// tool and a runtime of different versions understand what both know.

std::string text_of(const boost::json::object& object, std::string_view name);
double number_of(const boost::json::object& object, std::string_view name);
std::uint64_t count_of(const boost::json::object& object, std::string_view name);
bool flag_of(const boost::json::object& object, std::string_view name);
const boost::json::array& list_of(const boost::json::object& object, std::string_view name);
const boost::json::object& object_of(const boost::json::object& object, std::string_view name);

// As people read it.

std::string bytes_text(double bytes);
std::string seconds_text(double seconds);
/// Text of others for a terminal: control characters, which could steer it, become '?'.
std::string printable(std::string_view text);
/// One event, without an end of line.
std::string event_line(const boost::json::object& event);
/// Lines with how full each place is.
std::string places_table(const boost::json::array& places);
/// Lines with what NVML says of each GPU; empty where it says nothing.
std::string loads_table(const boost::json::object& loads);

}  // namespace vma
