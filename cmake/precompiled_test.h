// Like precompiled.h, for GoogleTest binaries.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled.h"
