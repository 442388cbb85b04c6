// The settling kernels with the bug that `broken_settle_kernel` is about: what changed is copied and
// the digest of what was there before is kept.

#define VMART_PLANTED_OLD_DIGEST
#include "../../../runtime/migrate/copying/kernels/digest.cu"
