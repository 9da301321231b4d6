// Macros for the tests of this folder: they end the test unless a status or a value is OK.
#ifndef BACKPLANE_SDK_HOST_TEST_MACROS_H_
#define BACKPLANE_SDK_HOST_TEST_MACROS_H_

#include <utility>

#include "gtest/gtest.h"
#include "sdk/host/status.h"

#define ASSERT_OK(expr)                       \
  do {                                        \
    const absl::Status ok_status = (expr);    \
    ASSERT_TRUE(ok_status.ok()) << ok_status; \
  } while (false)
#define ASSERT_OK_AND_ASSIGN(lhs, expr) BP_TEST_ASSIGN(BP_STATUS_CONCAT(tmp_, __LINE__), lhs, expr)
#define BP_TEST_ASSIGN(tmp, lhs, expr)   \
  auto tmp = (expr);                     \
  ASSERT_TRUE(tmp.ok()) << tmp.status(); \
  lhs = *std::move(tmp)

#endif  // BACKPLANE_SDK_HOST_TEST_MACROS_H_
