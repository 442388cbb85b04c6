// The settling kernels with the bug of `broken_settle_kernel`: changed bytes are copied, but the
// old digest is kept.

#define VMART_PLANTED_OLD_DIGEST
#include "../../../runtime/migrate/copying/kernels/digest.cu"
