#pragma once

#include "control/event_feed.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/migrator.hpp"
#include "parking/parker.hpp"
#include "scheduling/scheduler.hpp"
#include "telemetry/gpu_monitor.hpp"

#include <vma/runtime.hpp>

namespace vma {

/// What `Runtime::stats` answers. Takes short locks only.
RuntimeStats runtime_stats(Memory& memory, Migrator& migrator, Parker& parker, GpuMonitor& monitor);

/// What `Runtime::scheduler_stats` answers.
SchedulerStats scheduler_stats(const Scheduler& scheduler, const EventFeed& feed);

/// What `Runtime::allocation` answers.
AllocationInfo allocation_info(const Allocation& allocation, Parker& parker);

}  // namespace vma
