#pragma once

#include <vma/pool.hpp>
#include <vma/vmart.h>

struct vmart_pool {
  vma::Pool pool;
};
