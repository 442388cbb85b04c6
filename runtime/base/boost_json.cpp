// The one place where Boost.JSON is compiled; elsewhere its headers declare only.
#include <boost/json/src.hpp>
