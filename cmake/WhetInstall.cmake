# SPDX-License-Identifier: Apache-2.0
# The package that outside projects find: whet::whet, and whet::blas, whet::torch as components where they were built.
include(CMakePackageConfigHelpers)

set(whet_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/whet")
configure_package_config_file(cmake/whetConfig.cmake.in "${PROJECT_BINARY_DIR}/cmake/whetConfig.cmake"
    INSTALL_DESTINATION "${whet_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cmake/whetConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cmake/whetConfig.cmake" "${PROJECT_BINARY_DIR}/cmake/whetConfigVersion.cmake"
    DESTINATION "${whet_package_dir}")
install(EXPORT whetTargets NAMESPACE whet:: DESTINATION "${whet_package_dir}")
