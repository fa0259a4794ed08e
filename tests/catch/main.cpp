#define CATCH_CONFIG_MAIN
#include "tap_reporter.hpp"
