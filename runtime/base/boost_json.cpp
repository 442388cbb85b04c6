// Boost.JSON is compiled here, once; elsewhere its headers only declare.
#include <boost/json/src.hpp>
