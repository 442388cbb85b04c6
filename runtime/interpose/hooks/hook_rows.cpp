// Which function of this library takes the place of which one of the driver.
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"

namespace vma::interpose {

const std::array<HookRow, entry_count> hook_rows = {{
#define ROW(symbol, type, does) HookRow{#symbol, reinterpret_cast<const void*>(&hook_##symbol)},
    VMART_RUN_HOOKS(ROW)
#undef ROW
#define ROW(symbol, type, does) \
  HookRow{#symbol, reinterpret_cast<const void*>(&GenericHook<EntryPoint::symbol>::call)},
        VMART_RUN_GENERIC(ROW)
#undef ROW
}};

}  // namespace vma::interpose
