{{ config(enabled='mailings' in var('letters_parts')) }}

select
    contact_id,
    mailed_on,
    mailed_until,
    is_planned
from {{ source('letters', 'mailings') }}
