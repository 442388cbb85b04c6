#pragma once

#include "lab/replay/replay_report.hpp"

#include <boost/json/object.hpp>

namespace vma {

/// All of a report; `docs/guide/replay.md` has the keys. Times are seconds, or nanoseconds where
/// the name ends in `_ns`.
boost::json::object to_json(const ReplayReport& report);

}  // namespace vma
