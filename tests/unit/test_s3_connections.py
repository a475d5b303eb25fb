"""A deadline reaches connections by no public way of botocore: boto3 is allowed up to a version tested here."""

import pytest

from tiersnap.remote_storage.stores.s3_call import _Watched
from tiersnap.remote_storage.stores.s3_client import client_of
from tiersnap.remote_storage.stores.s3_settings import S3Settings

pytestmark = pytest.mark.unit

SETTINGS = S3Settings(endpoint_url="http://127.0.0.1:9", region="us-east-1")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("proxy", [None, "http://127.0.0.1:8"])
def test_client_makes_connections_that_a_deadline_can_cut(scheme, proxy):
    session = client_of(SETTINGS)._endpoint.http_session
    manager = session._get_connection_manager(f"{scheme}://127.0.0.1:9", proxy)
    pool = manager.connection_from_url(f"{scheme}://127.0.0.1:9")
    assert issubclass(pool.ConnectionCls, _Watched)
