// The shared object for programs.
#include "lab/policies/lab_policies.hpp"

VMART_EXPORT_POLICIES(vma::research_policies)
