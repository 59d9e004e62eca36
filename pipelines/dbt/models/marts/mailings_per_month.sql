{{ config(enabled='mailings' in var('letters_parts')) }}

select
    cast(date_trunc('month', mailed_on) as date) as month,
    count(*) as mailings,
    count(distinct contact_id) as contacts
from {{ ref('stg_mailings') }}
where is_planned is not true
group by 1
