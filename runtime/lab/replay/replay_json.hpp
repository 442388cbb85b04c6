#pragma once

#include "lab/replay/replay_report.hpp"

#include <boost/json/object.hpp>

namespace vma {

/// The complete report; `docs/guide/replay.md` describes the keys. Times are in seconds, or in
/// nanoseconds if the name ends in `_ns`.
boost::json::object to_json(const ReplayReport& report);

}  // namespace vma
